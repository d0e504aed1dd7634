# expects: addresses count bytes
def predict() -> dict[str, int]:
    """What the lines above lead to: five whole numbers, under the five keys."""
    return {
        "y[0]": 99,  # the same map, the same page
        "z[0]": 1,  # another map: it still sees the file's page
        "the file's first element": 1,  # copy-on-write: the file never changes
        "b.data_ptr() - x.data_ptr()": 4,  # four elements of two bytes, side by side
        "x[1] after close()": 2,  # the view keeps the map alive
    }
