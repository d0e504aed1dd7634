# expects: widen both inputs
#| exercise 2.5 points=3
def matvec(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """weight [N, K] times x [K]: all three bfloat16 bits (uint16), result [N].

    Multiplies and adds in float32 and rounds each result once.
    """
    return weight @ x
