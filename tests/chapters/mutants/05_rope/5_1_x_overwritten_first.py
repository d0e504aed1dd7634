# expects: both use the x
def rotate(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Arrows x [..., 2] turned against the clock by angle [...] in radians -> [..., 2].

    A single angle turns all arrows. The caller's array stays as it is.
    """
    turned = x.copy()
    turned[..., 0] = turned[..., 0] * np.cos(angle) - turned[..., 1] * np.sin(angle)
    turned[..., 1] = turned[..., 0] * np.sin(angle) + turned[..., 1] * np.cos(angle)
    return turned
