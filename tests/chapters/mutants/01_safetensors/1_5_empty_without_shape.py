# expects: wrong shape
def tensor_view(
    buffer: mmap.mmap | bytearray, dtype: torch.dtype, shape: tuple[int, ...], offset: int
) -> torch.Tensor:
    """A tensor [*shape] of `dtype` over the bytes of `buffer` from `offset` on: a view, no copy.

    Bytes that are not aligned (offset no multiple of the element size) are copied: fast code
    relies on aligned addresses.
    """
    count = math.prod(shape)
    if count == 0:
        return torch.empty(0, dtype=dtype)
    if offset % dtype.itemsize:
        buffer, offset = bytearray(buffer[offset : offset + count * dtype.itemsize]), 0
    return torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset).reshape(shape)
