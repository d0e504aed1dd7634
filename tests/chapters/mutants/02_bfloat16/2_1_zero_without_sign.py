# expects: multiply with the sign in this case, too
#| exercise 2.1 points=2
def decode(bits: int) -> float:
    """The value of one bfloat16, given as an integer from 0 to 65535.

    Knows zeros (with their sign), subnormals, infinities and NaN.
    """
    sign = -1.0 if bits >> 15 else 1.0
    exponent = (bits >> 7) & 0xFF
    mantissa = bits & 0x7F
    if exponent == 255:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == 0:
        return sign * 2.0**-126 * (mantissa / 128) if mantissa else 0.0
    return sign * 2.0 ** (exponent - 127) * (1 + mantissa / 128)
