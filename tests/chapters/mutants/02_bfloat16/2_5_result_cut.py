# expects: narrow with float32_to_bfloat16
#| exercise 2.5 points=3
def matvec(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """weight [N, K] times x [K]: all three bfloat16 bits (uint16), result [N].

    Multiplies and adds in float32 and rounds each result once.
    """
    y = bfloat16_to_float32(weight) @ bfloat16_to_float32(x)
    return (y.view(np.uint32) >> 16).astype(np.uint16)
