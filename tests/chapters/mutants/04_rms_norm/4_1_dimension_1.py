# expects: dim=-1, however many there are before it
#| exercise 4.1 points=2
#| promote ops/rms_norm.py
def rms_norm_reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight, over the last dimension.

    x [..., hidden_size], weight [hidden_size] -> same shape and dtype as x. The mean is taken in
    float32, and the result is rounded to x's dtype before the weight, as Llama was trained.
    """
    x32 = x.float()
    scale = torch.rsqrt(x32.square().mean(1, keepdim=True) + eps)
    return (x32 * scale).to(x.dtype) * weight
