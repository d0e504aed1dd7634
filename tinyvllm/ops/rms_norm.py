"""RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467): scale a vector to unit root mean square."""

import torch


def rms_norm_reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight, over the last dimension.

    x [T, hidden_size], weight [hidden_size] -> [T, hidden_size], x's dtype. The mean is taken in
    float32, and the result is rounded to x's dtype before the weight, as Llama was trained.
    """
    x32 = x.float()
    scale = torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)
    return (x32 * scale).to(x.dtype) * weight
