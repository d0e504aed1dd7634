# expects: bfloat16_to_float32 of 1, 3.140625, -5.75 and -inf
#| exercise 2.2 points=2
#| promote weights/bfloat16.py
def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """The values that bfloat16 bits stand for: `bits` any shape uint16 -> same shape float32.

    Exact: every bfloat16 is also a float32. Raises TypeError for any other dtype.
    """
    _require(bits, np.uint16, "bits")
    halves = np.stack([bits, np.zeros_like(bits)], axis=-1)
    return halves.view(np.float32)[..., 0]
