# expects: the total was rounded to bfloat16 after every addition
#| exercise 2.5 points=3
def matvec(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """weight [N, K] times x [K]: all three bfloat16 bits (uint16), result [N].

    Multiplies and adds in float32 and rounds each result once.
    """
    total = np.zeros(weight.shape[0], np.float32)
    for column, value in zip(bfloat16_to_float32(weight).T, bfloat16_to_float32(x)):
        total = bfloat16_to_float32(float32_to_bfloat16(total + column * value))
    return float32_to_bfloat16(total)
