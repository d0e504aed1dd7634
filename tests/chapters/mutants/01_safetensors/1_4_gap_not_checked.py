# expects: expected OffsetsGap
def check_layout(tensors: Mapping[str, TensorInfo], data_nbytes: int) -> None:
    """Check that the tensors fill the data section exactly: no gap, no overlap, nothing left.

    `data_nbytes` is how many bytes the file has after the header. The order of `tensors` does not
    matter. Raises OffsetsOverlap, OffsetsGap, OffsetsOutOfRange, DataTruncated or TrailingData.
    """
    position = 0  # where the next tensor has to begin
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        where = f"tensor {name!r} begins at byte {info.start:,} of the data"
        if info.start < position:
            raise OffsetsOverlap(f"{where}, inside the tensor that ends at {position:,}")
        if info.start > data_nbytes:
            raise OffsetsOutOfRange(f"{where}, the file has {data_nbytes:,}")
        position = info.end
    if position > data_nbytes:
        raise DataTruncated(
            f"the tensors need {position:,} bytes, the file has {data_nbytes:,}: "
            "was it downloaded completely?"
        )
    if position < data_nbytes:
        raise TrailingData(f"{data_nbytes - position:,} bytes after the last tensor belong to none")
