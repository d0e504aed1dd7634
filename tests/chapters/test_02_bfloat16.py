"""The checks of chapter 02, bfloat16: sixteen bits.

The oracle is torch's bfloat16. Where torch defines no bits (which NaN a NaN becomes), a check says
what must hold instead. The package is imported inside the checks: there it is the student's code.
"""

import math

import numpy as np
import torch

from tinyvllm.course import expect

EVERY = np.arange(65536, dtype=np.uint16)
# Nothing, the least, just below half a step, half, just above half, the most that is cut off.
LOWER_HALVES = (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF)


# -- helpers -------------------------------------------------------------------------------------


def float32_from(upper, lower=0) -> np.ndarray:
    """float32 [n] from upper halves [n] and one lower half."""
    bits = np.atleast_1d(np.asarray(upper)).astype(np.uint32) << 16 | np.uint32(lower)
    return bits.view(np.float32)


def torch_round(x: np.ndarray) -> np.ndarray:
    """float32 [n] -> bits of the nearest bfloat16, uint16 [n], as torch rounds."""
    return torch.from_numpy(x.copy()).to(torch.bfloat16).view(torch.uint16).numpy()


def torch_widen(bits: np.ndarray) -> np.ndarray:
    """Bits uint16 [n] -> float32 [n], as torch widens."""
    return torch.from_numpy(bits.copy()).view(torch.bfloat16).float().numpy()


def is_nan(bits: np.ndarray) -> np.ndarray:
    return (bits & 0x7FFF) > 0x7F80


def expect_rounded(actual, x: np.ndarray, expected: np.ndarray, what: str, hint: str) -> None:
    """Like expect.equal, but the first difference in hexadecimal, with its input."""
    expect_form(actual, expected, what, hint)
    wrong = np.flatnonzero(actual != expected)
    if wrong.size:
        i = wrong[0]
        raise AssertionError(
            f"{what}:\n"
            f"  first difference at index {i}: x = {x[i]:.8g} (0x{x.view(np.uint32)[i]:08X}),"
            f" got 0x{actual[i]:04X}, expected 0x{expected[i]:04X}\n"
            f"  {wrong.size} of {x.size} elements differ\n"
            f"  hint: {hint}"
        )


def expect_form(actual, expected: np.ndarray, what: str, hint: str) -> None:
    """Demand an array of the expected dtype and shape; its elements are looked at later."""
    form = (np.ndarray, expected.dtype, expected.shape)
    if (type(actual), getattr(actual, "dtype", None), getattr(actual, "shape", None)) != form:
        expect.equal(actual, expected, what, hint)


def expect_not_used(fn, names: set[str]) -> None:
    """Demand that the code of `fn` mentions none of `names`."""
    codes, found = [fn.__code__], set()
    while codes:
        code = codes.pop()
        found |= names & {*code.co_names, *code.co_varnames}
        codes += [const for const in code.co_consts if hasattr(const, "co_names")]
    if found:
        raise AssertionError(
            f"{fn.__name__} uses {', '.join(sorted(found))}:\n"
            "  hint: that call would do the exercise for you; this one is about the bits themselves"
        )


# -- 2.1 decode ----------------------------------------------------------------------------------


def test_2_1_normal_numbers(exercises):
    for bits, value in ((0x3F80, 1.0), (0x4049, 3.140625), (0x3F00, 0.5), (0x42C8, 100.0)):
        expect.equal(
            exercises.decode(bits),
            value,
            f"decode(0x{bits:04X})",
            "the exponent has 127 added, the mantissa counts 1/128 and lacks its leading 1",
        )


def test_2_1_the_sign_is_the_top_bit(exercises):
    expect.equal(
        exercises.decode(0xC0B8), -5.75, "decode(0xC0B8)", "the sign is the top bit, bit 15"
    )


def test_2_1_zeros_have_signs(exercises):
    for bits, sign in ((0x0000, 1.0), (0x8000, -1.0)):
        value = exercises.decode(bits)
        what = f"decode(0x{bits:04X})"
        hint = "exponent 0 and mantissa 0 is zero: there is no leading 1 to add"
        expect.equal(value, 0.0, what, hint)
        expect.equal(
            math.copysign(1.0, value),
            sign,
            f"the sign of {what}",
            "-1.0 * 0.0 is -0.0: multiply with the sign in this case, too",
        )


def test_2_1_subnormals(exercises):
    for bits in (0x0001, 0x0040, 0x007F, 0x8001):
        expect.equal(
            exercises.decode(bits),
            float(torch_widen(np.array([bits], np.uint16))[0]),
            f"decode(0x{bits:04X}), a subnormal",
            "with exponent 0 there is no leading 1, and the power of two stays at -126",
        )


def test_2_1_infinities_and_nan(exercises):
    hint = "exponent 255: infinity if the mantissa is 0, NaN otherwise"
    expect.equal(exercises.decode(0x7F80), math.inf, "decode(0x7F80)", hint)
    expect.equal(exercises.decode(0xFF80), -math.inf, "decode(0xFF80)", hint)
    for bits in (0x7FC0, 0x7F81, 0xFFFF):
        expect.equal(exercises.decode(bits), math.nan, f"decode(0x{bits:04X})", hint)


def test_2_1_every_value(exercises):
    decode = exercises.decode
    values = np.array([decode(bits) for bits in range(65536)], np.float64)
    with np.errstate(invalid="ignore"):  # signalling NaNs become quiet
        expected = torch_widen(EVERY).astype(np.float64)
    expect.equal(
        values,
        expected,
        "decode of all 65,536 patterns",
        "the index is the pattern; look at its sign, exponent and mantissa",
    )


def test_2_1_by_arithmetic_alone(exercises):
    names = {"np", "numpy", "torch", "struct", "ctypes", "bfloat16_to_float32"}
    expect_not_used(exercises.decode, names)


# -- 2.2 widen -----------------------------------------------------------------------------------


def test_2_2_known_values():
    from tinyvllm.weights.bfloat16 import bfloat16_to_float32

    expect.equal(
        bfloat16_to_float32(np.array([0x3F80, 0x4049, 0xC0B8, 0xFF80], np.uint16)),
        np.array([1.0, 3.140625, -5.75, -np.inf], np.float32),
        "bfloat16_to_float32 of 1, 3.140625, -5.75 and -inf",
        "all zeros: a uint16 has no room for a shift by 16, so make it uint32 first; whole numbers"
        " such as 16256: that is .astype(np.float32), which converts the value of the integer,"
        " where .view(np.float32) keeps its bits",
    )


def test_2_2_every_value():
    from tinyvllm.weights.bfloat16 import bfloat16_to_float32

    actual, expected = bfloat16_to_float32(EVERY), torch_widen(EVERY)
    what = "bfloat16_to_float32 of all 65,536 patterns"
    hint = "the index is the pattern; its bits become the upper half, zeros the lower half"
    expect.equal(actual, expected, what, hint)
    expect.equal(actual.view(np.uint32), expected.view(np.uint32), f"the bits of {what}", hint)


def test_2_2_keeps_the_shape():
    from tinyvllm.weights.bfloat16 import bfloat16_to_float32

    for shape in ((2, 3), (4, 1, 5), (0,), ()):
        expect.equal(
            bfloat16_to_float32(np.full(shape, 0x3F80, np.uint16)),
            np.ones(shape, np.float32),
            f"bfloat16_to_float32 of ones in the shape {shape}",
            "each element stands alone: the result has the shape of the input",
        )
    every_other = np.arange(0x3F80, 0x3F90, dtype=np.uint16)[::2]
    expect.equal(
        bfloat16_to_float32(every_other),
        torch_widen(every_other),
        "bfloat16_to_float32 of every other element of an array",
        "an array needn't lie in one piece: shift the elements, don't move bytes about",
    )


def test_2_2_refuses_other_dtypes():
    from tinyvllm.weights.bfloat16 import bfloat16_to_float32

    for dtype in (np.int16, np.uint8, np.uint32, np.float32):
        expect.raises(
            TypeError,
            lambda dtype=dtype: bfloat16_to_float32(np.ones(3, dtype)),
            f"bfloat16_to_float32 of {np.dtype(dtype)}",
            match="bits must be uint16",
            hint="call _require(bits, np.uint16, 'bits') first, as the given line does",
        )


def test_2_2_with_numpy_alone():
    from tinyvllm.weights.bfloat16 import bfloat16_to_float32

    expect_not_used(bfloat16_to_float32, {"torch", "ml_dtypes"})


# -- 2.3 narrow ----------------------------------------------------------------------------------


def numbers_with(lower: int) -> np.ndarray:
    """All float32 numbers, infinities included, with this lower half."""
    x = float32_from(EVERY, lower)
    return x[~np.isnan(x)]


def narrow_as_torch(x: np.ndarray, what: str, hint: str) -> None:
    from tinyvllm.weights.bfloat16 import float32_to_bfloat16

    expect_rounded(float32_to_bfloat16(x.copy()), x, torch_round(x), what, hint)


def test_2_3_by_hand():
    narrow_as_torch(
        np.array([0.1, 3.14, 1.0, -5.75], np.float32),
        "float32_to_bfloat16 of 0.1, 3.14, 1 and -5.75",
        "0.1 is 0x3DCCCCCD, and its nearest bfloat16 is 0x3DCD: cutting the lower half off isn't"
        " rounding",
    )


def test_2_3_exact_values_stay():
    narrow_as_torch(
        numbers_with(0x0000),
        "float32_to_bfloat16 of numbers that bfloat16 holds exactly",
        "with lower half 0x0000 nothing may change, also not for infinities, zeros and subnormals",
    )


def test_2_3_carries_and_overflows():
    narrow_as_torch(
        np.array([1.999, -1.999, 3.4e38, 3.4028235e38, -3.4028235e38, np.inf], np.float32),
        "float32_to_bfloat16 where the mantissa is full",
        "let the carry run from the mantissa into the exponent: 0x3FFF + 1 = 0x4000 is 2.0, and"
        " 0x7F7F + 1 = 0x7F80 is infinity",
    )


def test_2_3_rounds_to_nearest():
    for lower, kind in (
        (0x0001, "a little above"),
        (0x7FFF, "almost halfway"),
        (0x8001, "just beyond halfway"),
        (0xFFFF, "almost at the next one"),
    ):
        narrow_as_torch(
            numbers_with(lower),
            f"float32_to_bfloat16 of numbers {kind} (lower half 0x{lower:04X})",
            "lower half above 0x8000: the upper half grows by one; below: it stays",
        )


def test_2_3_ties_go_to_even():
    narrow_as_torch(
        numbers_with(0x8000),
        "float32_to_bfloat16 of ties (lower half 0x8000)",
        "halfway between two neighbours: take the one whose last bit is 0. An even upper half"
        " stays, an odd one grows by one",
    )


def test_2_3_random_numbers():
    bits = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype=np.uint32)
    x = bits.view(np.float32)
    narrow_as_torch(x[~np.isnan(x)], "float32_to_bfloat16 of random numbers", "compare the bits")


def test_2_3_nan_stays_nan():
    from tinyvllm.weights.bfloat16 import float32_to_bfloat16

    for lower in (*LOWER_HALVES, 0x8C22):
        x = float32_from(EVERY, lower)
        x = x[np.isnan(x)]
        actual = float32_to_bfloat16(x.copy())
        bad = np.flatnonzero(~is_nan(actual))
        if bad.size:
            i = bad[0]
            became = torch_widen(actual[i : i + 1])[0]
            raise AssertionError(
                "float32_to_bfloat16 of NaN:\n"
                f"  first difference at index {i}: 0x{x.view(np.uint32)[i]:08X} is NaN, got"
                f" 0x{actual[i]:04X}, which is {became}\n"
                f"  {bad.size} of {x.size} NaNs are lost\n"
                "  hint: find the NaNs first (exponent all ones, mantissa not 0), and don't round"
                " them: keep the upper half and set bit 6, 0x0040"
            )


def test_2_3_nan_becomes_quiet_and_keeps_its_sign():
    from tinyvllm.weights.bfloat16 import float32_to_bfloat16

    for lower in LOWER_HALVES:
        x = float32_from(EVERY, lower)
        x = x[np.isnan(x)]
        actual = float32_to_bfloat16(x.copy())
        expect.equal(
            (actual & 0x0040) != 0,
            np.ones(x.shape, bool),
            f"'is quiet' for the NaNs with lower half 0x{lower:04X}",
            "set the top bit of the mantissa, 0x0040, in every NaN",
        )
        expect.equal(
            actual >> 15,
            (x.view(np.uint32) >> 31).astype(np.uint16),
            f"the signs of the NaNs with lower half 0x{lower:04X}",
            "keep the upper half of a NaN, with its sign",
        )


def test_2_3_keeps_the_shape_and_the_input():
    from tinyvllm.weights.bfloat16 import float32_to_bfloat16

    for shape in ((2, 3), (0,), ()):
        expect.equal(
            float32_to_bfloat16(np.full(shape, 1.5, np.float32)),
            np.full(shape, 0x3FC0, np.uint16),
            f"float32_to_bfloat16 of 1.5 in the shape {shape}",
            "each element stands alone: the result has the shape of the input, as uint16",
        )
    x = np.array([0.1, 0.2, 0.3, np.nan], np.float32)
    before = x.copy()
    float32_to_bfloat16(x)
    expect.equal(
        x.view(np.uint32),
        before.view(np.uint32),
        "the caller's array, after the call",
        "x.view(np.uint32) shares its memory with x, so += on it changes x",
    )


def test_2_3_refuses_other_dtypes():
    from tinyvllm.weights.bfloat16 import float32_to_bfloat16

    for dtype in (np.float64, np.float16, np.uint32):
        expect.raises(
            TypeError,
            lambda dtype=dtype: float32_to_bfloat16(np.ones(4, dtype)),
            f"float32_to_bfloat16 of {np.dtype(dtype)}",
            match="x must be float32",
            hint="begin with _require(x, np.float32, 'x'): the docstring promises a TypeError",
        )


def test_2_3_with_numpy_alone():
    from tinyvllm.weights.bfloat16 import float32_to_bfloat16

    expect_not_used(float32_to_bfloat16, {"torch", "ml_dtypes"})


# -- 2.4 predict ---------------------------------------------------------------------------------


def total_of(term: float, start: float, dtype: torch.dtype) -> float:
    total = torch.tensor(start, dtype=dtype)
    for _ in range(1000):
        total = total + torch.tensor(term, dtype=dtype)
    return total.to(torch.bfloat16).item()


def test_2_4_predictions(exercises):
    results = {
        "stored_257": torch.tensor(257.0, dtype=torch.bfloat16).item(),
        "bf16_70000": torch.tensor(70000.0, dtype=torch.bfloat16).item(),
        "fp16_70000": torch.tensor(70000.0, dtype=torch.float16).item(),
        "ones": total_of(1.0, 0.0, torch.bfloat16),
        "ones_to_1000": total_of(1.0, 1000.0, torch.bfloat16),
        "ones_in_fp32": total_of(1.0, 0.0, torch.float32),
    }
    hints = {
        "stored_257": "from 256 to 512 the numbers are 2 apart: 257 is a tie, and even wins",
        "bf16_70000": "which of the three neighbours is nearest? Not rounded up, not cut off",
        "fp16_70000": "float16 ends at 65504",
        "ones": "up to which total is every whole number a bfloat16? And the next one is a tie",
        "ones_to_1000": "at 1000 the numbers are 4 apart; each addition is rounded on its own",
        "ones_in_fp32": "float32 holds whole numbers up to 2**24; is 1000 a bfloat16?",
    }
    predictions = exercises.predict()
    missing = [name for name in results if name not in predictions]
    expect.equal(missing, [], "the experiments without a prediction", "one number for each name")
    for name, result in results.items():
        expect.equal(
            float(predictions[name]),
            result,
            f"your prediction {name!r} against the experiment",
            hints[name],
        )


# -- 2.5 matvec ----------------------------------------------------------------------------------


def bits(values) -> np.ndarray:
    return torch_round(np.asarray(values, np.float32))


def expect_product(exercises, weight, x, expected, what: str, hint: str) -> None:
    """Demand that matvec gives these values (all of them bfloat16), as bits."""
    actual, expected = exercises.matvec(bits(weight), bits(x)), np.asarray(expected, np.float32)
    assert (torch_widen(bits(expected)) == expected).all()
    expect_form(actual, bits(expected), what, hint)
    expect.equal(torch_widen(actual), expected, what, hint)


def test_2_5_shape_and_dtype(exercises):
    expect_product(
        exercises,
        [[1, 2, 3], [4, 5, 6]],
        [1, 0, -1],
        [-2, -2],
        "matvec of [[1, 2, 3], [4, 5, 6]] and [1, 0, -1]",
        "the result is [N] bfloat16 bits as uint16: widen both inputs, multiply weight [N, K] by"
        " x [K], narrow the result",
    )


def test_2_5_the_total_is_float32(exercises):
    n = 2000
    expect_product(
        exercises,
        np.ones((3, n)),
        np.ones(n),
        [n] * 3,
        "matvec: two thousand times 1 · 1",
        "256 means that the total was rounded to bfloat16 after every addition. Keep it in float32",
    )


def test_2_5_range_of_float32(exercises):
    expect_product(
        exercises,
        [[256, 256], [2.0**100, 2.0**-100]],
        [256, 256],
        [131072, 2.0**108],
        "matvec with products beyond the range of float16",
        "inf means a float16: widen to float32, not to float16",
    )


def test_2_5_products_are_not_rounded(exercises):
    # (1 + 1/128)² = 1 + 1/64 + 1/16384, and all but the last is taken away again.
    expect_product(
        exercises,
        [[1 + 2**-7, 1 + 2**-6]],
        [1 + 2**-7, -1],
        [2**-14],
        "matvec: (1 + 1/128)² - (1 + 1/64)",
        "0 means that the products were rounded before they were added. In float32 they are"
        " exact: round once, at the end",
    )


def test_2_5_the_result_is_rounded(exercises):
    expect_product(
        exercises,
        [[256, 1], [256, 3], [256, 3.5]],
        [1, 1],
        [256, 260, 260],
        "matvec with results 257, 259 and 259.5",
        "narrow with float32_to_bfloat16: nearest, ties to even; not by cutting",
    )


def test_2_5_random_matrix(exercises):
    rng = np.random.default_rng(0)
    weight, x = bits(rng.standard_normal((64, 300))), bits(rng.standard_normal(300))
    exact = torch_widen(weight).astype(np.float64) @ torch_widen(x).astype(np.float64)
    actual = exercises.matvec(weight, x)
    what, hint = "matvec of a random matrix", "weight is [64, 300], x is [300]: the result is [64]"
    expect_form(actual, bits(exact), what, hint)
    expect.close(
        torch_widen(actual).astype(np.float64),
        exact,
        f"{what}, against float64",
        rtol=2**-8,
        atol=1e-4,
        hint="one rounding to bfloat16 is at most a relative error of 1/256",
    )


def test_2_5_with_your_own_functions(exercises):
    expect_not_used(exercises.matvec, {"torch", "ml_dtypes"})


# -- 2.6 find the fault --------------------------------------------------------------------------


def add_and_cut(x: np.ndarray, amount) -> np.ndarray:
    return ((x.view(np.uint32) + amount) >> 16).astype(np.uint16)


def rounded(x: np.ndarray) -> np.ndarray:
    """Right for all numbers; turns some NaNs into something else."""
    return add_and_cut(x, 0x7FFF + (x.view(np.uint32) >> 16 & 1))


def right(x: np.ndarray) -> np.ndarray:
    """Right, and every NaN becomes the same one: other bits than torch's, still NaN."""
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded(x))


def right_by_torch(x: np.ndarray) -> np.ndarray:
    return torch_round(x)


def cutting(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), np.uint16(0x7FC0), add_and_cut(x, 0))


def ties_away_from_zero(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), np.uint16(0x7FC0), add_and_cut(x, 0x8000))


def ties_towards_zero(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), np.uint16(0x7FC0), add_and_cut(x, 0x7FFF))


def rounding_nan(x: np.ndarray) -> np.ndarray:
    return rounded(x)


def cutting_nan(x: np.ndarray) -> np.ndarray:
    """A NaN whose mantissa lies in the lower half becomes infinity."""
    return np.where(np.isnan(x), add_and_cut(x, 0), rounded(x))


def infinity_becomes_nan(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), rounded(x), add_and_cut(x, 0) | 0x0040).astype(np.uint16)


def stops_at_the_largest(x: np.ndarray) -> np.ndarray:
    largest = (right(x) & 0x8000) | 0x7F7F
    return np.where(np.isfinite(x) & ((right(x) & 0x7FFF) == 0x7F80), largest, right(x))


def subnormals_become_zero(x: np.ndarray) -> np.ndarray:
    small = (right(x) & 0x7F80) == 0
    return np.where(small & ~np.isnan(x), right(x) & 0x8000, right(x)).astype(np.uint16)


def looks_at_nine_bits_only(x: np.ndarray) -> np.ndarray:
    """Takes 0x8001 for a tie: it looks at the upper nine bits of the lower half only."""
    return right((x.view(np.uint32) & np.uint32(0xFFFFFF80)).view(np.float32))


def negative_ties_wrong(x: np.ndarray) -> np.ndarray:
    return np.where(np.signbit(x), ties_away_from_zero(x), right(x))


def negative_zero_lost(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, np.uint16(0), right(x))


def through_float16(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return right(x.astype(np.float16).astype(np.float32))


FAULTY = {
    cutting: "cuts the lower half off: the first lower half above 0x8000 shows it",
    ties_away_from_zero: "rounds every tie up: try the lower half 0x8000 with an even upper half",
    ties_towards_zero: "rounds every tie down: try the lower half 0x8000 with an odd upper half",
    negative_ties_wrong: "rounds ties wrongly for negative numbers only: try all upper halves",
    looks_at_nine_bits_only: "takes 0x8001 for a tie: try a lower half just above 0x8000",
    rounding_nan: "rounds NaN as if it were a number: NaN comes out as infinity or as zero",
    cutting_nan: "turns a NaN whose mantissa lies in the lower half into infinity: try 0x7F800001",
    infinity_becomes_nan: "turns infinity into NaN: infinity is among the numbers to try",
    stops_at_the_largest: "gives the largest number instead of infinity: try upper half 0x7F7F",
    subnormals_become_zero: "turns subnormals into zero: don't leave the smallest numbers out",
    negative_zero_lost: "loses the sign of -0: compare the bits, because -0.0 == 0.0 is true",
    through_float16: "goes through float16, which has another range",
}


def test_2_6_no_false_alarm(exercises):
    for convert in (right, right_by_torch):
        expect.equal(
            exercises.find_fault(convert),
            None,
            "find_fault of a conversion without fault",
            "there is more than one NaN, and any of them is right for a NaN: compare bits for"
            " numbers, and only 'is it NaN' for NaN",
        )


def test_2_6_finds_every_fault(exercises):
    for convert, fault in FAULTY.items():
        pattern = exercises.find_fault(convert)
        what = f"find_fault of a conversion that {fault.split(':')[0]}"
        if pattern is None:
            raise AssertionError(f"{what}:\n  got None: it wasn't found\n  hint: it {fault}")
        if not isinstance(pattern, int | np.integer) or not 0 <= pattern < 1 << 32:
            raise AssertionError(
                f"{what}:\n  got {pattern!r}, which is no integer of 32 bits\n"
                "  hint: return the bits of the float32 as an integer, or None"
            )
        x = np.array([pattern], np.uint32).view(np.float32)
        actual, expected = convert(x), torch_round(x)
        is_wrong = not is_nan(actual)[0] if np.isnan(x[0]) else actual[0] != expected[0]
        if not is_wrong:
            raise AssertionError(
                f"{what}:\n"
                f"  got 0x{int(pattern):08X}, but that one is right: 0x{actual[0]:04X}\n"
                "  hint: return the bits of the first float32 that came out wrong, upper and lower"
                " half"
            )
