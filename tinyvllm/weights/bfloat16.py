# Promoted from solutions/02_bfloat16.md: edit it there, then `make build`.
"""bfloat16 and float32, converted on their bits with NumPy, which has no bfloat16 of its own.

A bfloat16 is the upper half of a float32 (IEEE 754 binary32): sign, 8 exponent bits, 7 mantissa
bits. NumPy holds it as uint16. Widening is exact. Narrowing rounds to the nearest bfloat16, ties
to the even one. Every NaN stays a NaN: its sign and upper payload are kept and it becomes quiet,
as on x86 (VCVTNEPS2BF16). Which NaN it is, is not defined by torch: 0x7FC0 or 0xFFFF, by code path.
"""

import numpy as np


def _require(x: np.ndarray, dtype: type, name: str) -> None:
    """Raise TypeError unless `x` is a NumPy array of `dtype`."""
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, not {type(x).__name__}")
    if x.dtype != dtype:
        raise TypeError(f"{name} must be {np.dtype(dtype).name}, not {x.dtype}")


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """The values that bfloat16 bits stand for: `bits` any shape uint16 -> same shape float32.

    Exact: every bfloat16 is also a float32. Raises TypeError for any other dtype.
    """
    _require(bits, np.uint16, "bits")
    # uint32 first: in 16 bits the shift would push everything out.
    upper = np.left_shift(bits, 16, dtype=np.uint32)
    return np.asarray(upper).view(np.float32)


def float32_to_bfloat16(x: np.ndarray) -> np.ndarray:
    """The bits of the bfloat16 nearest to each value: `x` any shape float32 -> same shape uint16.

    A value halfway between two bfloat16 goes to the one whose last bit is 0 (ties to even). Too
    large becomes ±inf, ±inf and ±0 stay, subnormals round like all others, a NaN stays a (quiet)
    NaN. Raises TypeError for any other dtype.
    """
    _require(x, np.float32, "x")
    bits = x.view(np.uint32)
    upper = bits >> 16
    # Adding 0x7FFF carries into the upper half if the lower is above 0x8000. One more, for an odd
    # upper half, and 0x8000 carries, too. The carry may run on into the exponent, as it should.
    with np.errstate(over="ignore"):  # only a NaN can wrap around, and it is replaced below
        nearest = (bits + (0x7FFF + (upper & 1))) >> 16
    # Rounding could carry a NaN into inf or -0. Bit 6 makes it quiet, and never inf.
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(is_nan, upper | 0x0040, nearest).astype(np.uint16)
