# expects: which converts the value of the integer
#| exercise 2.2 points=2
#| promote weights/bfloat16.py
def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """The values that bfloat16 bits stand for: `bits` any shape uint16 -> same shape float32.

    Exact: every bfloat16 is also a float32. Raises TypeError for any other dtype.
    """
    _require(bits, np.uint16, "bits")
    return (bits.astype(np.uint32) << 16).astype(np.float32)
