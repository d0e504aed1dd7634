# Promoted from solutions/04_rms_norm.md: edit it there, then `make build`.
"""RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467): scale a vector to unit root mean square.

`rms_norm_reference` is the definition, `rms_norm_kernel` launches kernels/rms_norm.cu.
"""

from functools import cache

import torch


def rms_norm_reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight, over the last dimension.

    x [..., hidden_size], weight [hidden_size] -> same shape and dtype as x. The mean is taken in
    float32, and the result is rounded to x's dtype before the weight, as Llama was trained.
    """
    x32 = x.float()
    scale = torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)
    return (x32 * scale).to(x.dtype) * weight


def rms_norm_kernel(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`rms_norm_reference` in one kernel: x [T, hidden_size], weight [hidden_size] -> as x, new.

    bfloat16, float16 or float32, the same for both. On a GPU it runs on torch's current stream, on
    a CPU in the emulator. Raises ValueError for shapes and devices, TypeError for dtypes that
    don't fit.
    """
    if x.dim() != 2 or weight.shape != x.shape[1:]:
        raise ValueError(
            "rms_norm_kernel takes x [T, hidden_size] and weight [hidden_size], not"
            f" {list(x.shape)} and {list(weight.shape)}"
        )
    if x.dtype not in (torch.bfloat16, torch.float16, torch.float32) or weight.dtype != x.dtype:
        raise TypeError(
            "rms_norm_kernel takes x and weight of one dtype, bfloat16, float16 or float32, not"
            f" {x.dtype} and {weight.dtype}"
        )
    if x.device != weight.device:
        raise ValueError(f"x is on {x.device}, but weight is on {weight.device}")
    x, weight = x.contiguous(), weight.contiguous()
    out = torch.empty_like(x)
    num_tokens, hidden_size = x.shape
    if x.numel() == 0:
        return out
    per_load = 16 // x.element_size()
    aligned = (x.data_ptr() | weight.data_ptr() | out.data_ptr()) % 16 == 0
    wide = aligned and hidden_size % per_load == 0
    # One 16-byte load a thread covers the row; without those, four elements a thread.
    per_thread = per_load if wide else 4
    threads = min(1024, -(-hidden_size // (32 * per_thread)) * 32)
    kernel = _kernel("rms_norm_wide" if wide else "rms_norm", x.dtype)
    kernel((num_tokens,), (threads,), (out, x, weight, hidden_size, eps))
    return out


@cache
def _kernel(name: str, dtype: torch.dtype):
    from tinyvllm.cuda import load  # not before a kernel is wanted: it takes a while

    return load("rms_norm.cu", name, scalar_t=dtype)
