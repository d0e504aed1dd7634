# expects: but that one is right
#| exercise 2.6 points=4
def find_fault(convert) -> int | None:
    """The 32 bits of a float32 that `convert` gets wrong, or None if it gets all cases right.

    `convert` takes [n] float32 and returns [n] uint16. torch may be the oracle.
    """
    upper = np.arange(65536, dtype=np.uint32)
    for lower in (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        bits = upper << 16 | np.uint32(lower)
        x = bits.view(np.float32)
        actual = convert(x.copy())
        expected = torch.from_numpy(x).to(torch.bfloat16).view(torch.uint16).numpy()
        stays_nan = (actual & 0x7FFF) > 0x7F80
        wrong = np.where(np.isnan(x), ~stays_nan, actual != expected)
        if wrong.any():
            return int(wrong.argmax())
    return None
