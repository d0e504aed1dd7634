# expects: a in radians
def rotate(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Arrows x [..., 2] turned against the clock by angle [...] in radians -> [..., 2].

    A single angle turns all arrows. The caller's array stays as it is.
    """
    cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    first, second = x[..., 0], x[..., 1]
    return np.stack((first * cosine - second * sine, first * sine + second * cosine), axis=-1)
