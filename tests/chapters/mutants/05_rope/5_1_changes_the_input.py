# expects: they belong to the caller
def rotate(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Arrows x [..., 2] turned against the clock by angle [...] in radians -> [..., 2].

    A single angle turns all arrows. The caller's array stays as it is.
    """
    first, second = x[..., 0].copy(), x[..., 1].copy()
    x[..., 0] = first * np.cos(angle) - second * np.sin(angle)
    x[..., 1] = first * np.sin(angle) + second * np.cos(angle)
    return x
