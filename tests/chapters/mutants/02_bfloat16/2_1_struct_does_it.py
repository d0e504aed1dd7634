# expects: that call would do the exercise for you
#| exercise 2.1 points=2
def decode(bits: int) -> float:
    """The value of one bfloat16, given as an integer from 0 to 65535.

    Knows zeros (with their sign), subnormals, infinities and NaN.
    """
    import struct

    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
