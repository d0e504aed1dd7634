# expects: rotate((2.0, 0.0)) by 90 degrees
def rotate(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Arrows x [..., 2] turned against the clock by angle [...] in radians -> [..., 2].

    A single angle turns all arrows. The caller's array stays as it is.
    """
    cosine, sine = np.cos(angle), np.sin(angle)
    first, second = x[..., 0], x[..., 1]
    return np.stack((first * cosine + second * sine, second * cosine - first * sine), axis=-1)
