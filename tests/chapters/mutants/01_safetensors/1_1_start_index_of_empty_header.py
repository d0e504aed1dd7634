# expects: expected HeaderStart, but IndexError was raised
def split_header(buffer: bytes | mmap.mmap) -> tuple[bytes, int]:
    """Cut the header out of a file: its bytes, and where the data begins (bytes from the start).

    Raises FileTooShort, HeaderTooLarge, HeaderTruncated or HeaderStart.
    """
    if len(buffer) < 8:
        raise FileTooShort(
            f"a safetensors file begins with 8 bytes of length, this one has {len(buffer)} in all"
        )
    size = int.from_bytes(buffer[:8], "little")
    if size > MAX_HEADER_BYTES:
        raise HeaderTooLarge(
            f"the header claims {size:,} bytes, the format allows {MAX_HEADER_BYTES:,}: "
            "this is probably no safetensors file"
        )
    if 8 + size > len(buffer):
        raise HeaderTruncated(
            f"the header claims {size:,} bytes, the file has {len(buffer) - 8:,} after the length"
        )
    header = bytes(buffer[8 : 8 + size])
    if header[0] != 0x7B:
        raise HeaderStart(f"the header must begin with '{{', it begins with {header[:1]!r}")
    return header, 8 + size
