# expects: spelled exactly so
def tensor_nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes that a tensor of this dtype and shape needs.

    Raises UnknownDtype, SizeOverflow (elements or bits do not fit in 64 bits) or SizeMismatch
    (elements smaller than a byte that do not fill whole bytes).
    """
    dtype = dtype.strip().upper()
    if dtype not in DTYPES:
        raise UnknownDtype(f"unknown dtype {dtype!r}; the format has {', '.join(DTYPES)}")
    count = 1
    for size in shape:
        count *= size
        if count >= U64:
            raise SizeOverflow(f"shape {list(shape)} has more elements than 64 bits can count")
    bits = count * DTYPES[dtype][0]
    if bits >= U64:
        raise SizeOverflow(f"shape {list(shape)} in {dtype} has more bits than 64 bits can count")
    if bits % 8:
        raise SizeMismatch(f"shape {list(shape)} in {dtype} is {bits} bits, not whole bytes")
    return bits // 8
