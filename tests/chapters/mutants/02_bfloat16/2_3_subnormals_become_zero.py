# expects: zeros and subnormals
#| exercise 2.3 points=4
#| promote weights/bfloat16.py
def float32_to_bfloat16(x: np.ndarray) -> np.ndarray:
    """The bits of the bfloat16 nearest to each value: `x` any shape float32 -> same shape uint16.

    A value halfway between two bfloat16 goes to the one whose last bit is 0 (ties to even). Too
    large becomes ±inf, ±inf and ±0 stay, subnormals round like all others, a NaN stays a (quiet)
    NaN. Raises TypeError for any other dtype.
    """
    _require(x, np.float32, "x")
    bits = x.view(np.uint32)
    upper = bits >> 16
    nearest = (bits + (0x7FFF + (upper & 1))) >> 16
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    nearest = np.where((bits & 0x7F800000) == 0, upper & 0x8000, nearest)
    return np.where(is_nan, upper | 0x0040, nearest).astype(np.uint16)
