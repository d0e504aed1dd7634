# expects: the result has the shape of the input
#| exercise 2.2 points=2
#| promote weights/bfloat16.py
def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """The values that bfloat16 bits stand for: `bits` any shape uint16 -> same shape float32.

    Exact: every bfloat16 is also a float32. Raises TypeError for any other dtype.
    """
    _require(bits, np.uint16, "bits")
    return np.frombuffer((bits.astype(np.uint32) << 16).tobytes(), np.float32)
