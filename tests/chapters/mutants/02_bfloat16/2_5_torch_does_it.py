# expects: that call would do the exercise for you
#| exercise 2.5 points=3
def matvec(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """weight [N, K] times x [K]: all three bfloat16 bits (uint16), result [N].

    Multiplies and adds in float32 and rounds each result once.
    """
    import torch

    wide_weight = torch.from_numpy(weight.copy()).view(torch.bfloat16).float()
    wide_x = torch.from_numpy(x.copy()).view(torch.bfloat16).float()
    return (wide_weight @ wide_x).to(torch.bfloat16).view(torch.uint16).numpy()
