# expects: the blanks go to its end
def to_bytes(tensors: dict[str, torch.Tensor]) -> bytes:
    """The bytes of a safetensors file with these tensors; the data begins at a multiple of 8."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        dtype = next(key for key, (_, dtype) in DTYPES.items() if dtype == tensor.dtype)
        values = tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(values)],
        }
        data += values
    text = json.dumps(header, separators=(",", ":")).encode()
    text = b" " * (-len(text) % 8) + text
    return len(text).to_bytes(8, "little") + text + data
