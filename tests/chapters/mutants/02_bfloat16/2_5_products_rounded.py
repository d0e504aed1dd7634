# expects: the products were rounded before they were added
#| exercise 2.5 points=3
def matvec(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """weight [N, K] times x [K]: all three bfloat16 bits (uint16), result [N].

    Multiplies and adds in float32 and rounds each result once.
    """
    products = bfloat16_to_float32(weight) * bfloat16_to_float32(x)
    products = bfloat16_to_float32(float32_to_bfloat16(products))
    return float32_to_bfloat16(products.sum(axis=1))
