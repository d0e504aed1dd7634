"""bfloat16 on its bits: every one of the 65,536 values, and every way a float32 can round to one.

The oracle is torch's own conversion. Where torch defines no bits (which NaN a NaN becomes), the
test says what must hold instead.
"""

import warnings

import numpy as np
import pytest
import torch

from tinyvllm.weights.bfloat16 import bfloat16_to_float32, float32_to_bfloat16

EVERY_UPPER_HALF = np.arange(65536, dtype=np.uint16)
# What is cut off: nothing, the least, just below half, half, just above half, the most. Every
# rounding decision depends on these and on the last bit of the upper half only.
CRITICAL_LOWER_HALVES = [0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]


def float32_from(upper: np.ndarray, lower: int) -> np.ndarray:
    return ((upper.astype(np.uint32) << 16) | np.uint32(lower)).view(np.float32)


def torch_round(x: np.ndarray) -> np.ndarray:
    return torch.from_numpy(x.copy()).to(torch.bfloat16).view(torch.uint16).numpy()


def is_nan(bits: np.ndarray) -> np.ndarray:
    return (bits & 0x7FFF) > 0x7F80


def test_every_value_widens_to_the_float32_that_torch_gives():
    expected = torch.from_numpy(EVERY_UPPER_HALF.copy()).view(torch.bfloat16).float().numpy()
    actual = bfloat16_to_float32(EVERY_UPPER_HALF)
    assert actual.dtype == np.float32
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))


def test_every_value_survives_the_way_there_and_back():
    back = float32_to_bfloat16(bfloat16_to_float32(EVERY_UPPER_HALF))
    signalling = is_nan(EVERY_UPPER_HALF) & ((EVERY_UPPER_HALF & 0x0040) == 0)
    assert signalling.sum() == 2 * 63
    expected = np.where(signalling, EVERY_UPPER_HALF | 0x0040, EVERY_UPPER_HALF)
    np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("lower", CRITICAL_LOWER_HALVES, ids=hex)
def test_every_upper_half_rounds_as_in_torch(lower):
    x = float32_from(EVERY_UPPER_HALF, lower)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(float32_to_bfloat16(x)[numbers], torch_round(x)[numbers])


@pytest.mark.parametrize("upper", [0x0000, 0x3F80, 0x3F81, 0x7F7F, 0x8001, 0xFF7F], ids=hex)
def test_every_lower_half_rounds_as_in_torch(upper):
    x = ((upper << 16) + np.arange(65536, dtype=np.uint32)).view(np.float32)
    np.testing.assert_array_equal(float32_to_bfloat16(x), torch_round(x))


def test_random_bit_patterns_round_as_in_torch():
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1_000_000, dtype=np.uint32)
    x = bits.view(np.float32)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(float32_to_bfloat16(x)[numbers], torch_round(x)[numbers])


@pytest.mark.parametrize("lower", [*CRITICAL_LOWER_HALVES, 0x8C22], ids=hex)
def test_every_nan_stays_a_quiet_nan_with_its_sign(lower):
    x = float32_from(EVERY_UPPER_HALF, lower)
    nans = np.isnan(x)
    bits = float32_to_bfloat16(x)[nans]
    assert nans.sum() == (256 if lower else 254)
    assert is_nan(bits).all()
    assert (bits & 0x0040).all()
    np.testing.assert_array_equal(bits >> 15, EVERY_UPPER_HALF[nans] >> 15)


def test_the_largest_numbers_become_infinity_only_from_halfway_on():
    x = np.array([0x7F7F0000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0xFF7F8000], np.uint32)
    expected = [0x7F7F, 0x7F7F, 0x7F80, 0x7F80, 0xFF80]
    np.testing.assert_array_equal(float32_to_bfloat16(x.view(np.float32)), expected)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3, 5)])
def test_shapes_are_kept(shape):
    x = np.full(shape, 1.5, np.float32)
    bits = float32_to_bfloat16(x)
    assert (bits.shape, bits.dtype) == (shape, np.uint16)
    back = bfloat16_to_float32(bits)
    assert (back.shape, back.dtype) == (shape, np.float32)
    np.testing.assert_array_equal(back, x)


def test_strided_and_read_only_arrays_are_taken_and_left_as_they_are():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    x.flags.writeable = False
    strided = x[::2, ::-3]
    np.testing.assert_array_equal(bfloat16_to_float32(float32_to_bfloat16(strided)), strided)
    np.testing.assert_array_equal(x.ravel(), np.arange(24))


def test_no_input_makes_numpy_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bits in (0xFFFFFFFF, 0x7F800001, 0x7F7FFFFF, 0x00000001):
            x = np.array(bits, np.uint32).view(np.float32)
            float32_to_bfloat16(x)
            float32_to_bfloat16(x.reshape(1))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint32, ">f4"])
def test_only_native_float32_is_narrowed(dtype):
    with pytest.raises(TypeError, match=r"x must be float32, not "):
        float32_to_bfloat16(np.ones(3, dtype))


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.uint32, np.float32, np.int64])
def test_only_uint16_bits_are_widened(dtype):
    with pytest.raises(TypeError, match=r"bits must be uint16, not "):
        bfloat16_to_float32(np.ones(3, dtype))


def test_what_is_no_array_is_refused_in_words():
    with pytest.raises(TypeError, match="x must be a NumPy array, not list"):
        float32_to_bfloat16([1.0])
    with pytest.raises(TypeError, match="bits must be a NumPy array, not int"):
        bfloat16_to_float32(0x3F80)
