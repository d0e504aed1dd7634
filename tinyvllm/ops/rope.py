# Promoted from solutions/05_rope.md: edit it there, then `make build`.
"""RoPE (Su et al. 2021, arXiv:2104.09864): position as rotation.

Pairs are half-split, (i, i + head_dim/2), as in Hugging Face's checkpoints; the paper's own pairs
are adjacent. Llama 3's scaling of long wavelengths follows its reference release (2024).
"""

import math
from functools import cache

import torch

from tinyvllm.config import RopeScaling
from tinyvllm.cuda import load


def base_frequencies(head_dim: int, theta: float) -> torch.Tensor:
    """Radians per position of each pair, theta^(-2i/head_dim): [head_dim / 2] float32."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    return 1.0 / theta**exponents


def cos_sin_table(frequencies: torch.Tensor, length: int) -> torch.Tensor:
    """cos and sin of every position's angles, side by side: [length, head_dim] float32."""
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


def rope_reference(
    positions: torch.Tensor, q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates each pair (i, i + head_dim/2) of every head by its position's angle.

    positions [T] int64, q [T, num_heads, head_dim], k [T, num_kv_heads, head_dim],
    cos_sin [max_model_len, head_dim] float32 -> (q, k), rotated, in their dtypes.
    """
    cos, sin = cos_sin.index_select(0, positions).unsqueeze(1).chunk(2, dim=-1)

    def rotate(x: torch.Tensor) -> torch.Tensor:
        x1, x2 = x.float().chunk(2, dim=-1)
        return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1).to(x.dtype)

    return rotate(q), rotate(k)


def inverse_frequencies(
    head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> torch.Tensor:
    """Radians per position of each pair, with Llama 3's scaling if any: [head_dim / 2] float32.

    scaling: factor, low_freq_factor, high_freq_factor, original_max_position_embeddings (tokens).
    """
    frequencies = base_frequencies(head_dim, theta)
    if scaling is None:
        return frequencies
    wavelengths = 2 * math.pi / frequencies  # in tokens
    turns = scaling.original_max_position_embeddings / wavelengths
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return keep * frequencies + (1 - keep) * frequencies / scaling.factor


def rope_kernel(
    positions: torch.Tensor, q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """`rope_reference` by kernels/rope.cu, q and k in one launch; shapes and dtypes as there.

    CUDA tensors run on the GPU, CPU tensors in the emulator. q and k may be any views; the results
    are new, contiguous tensors. Raises ValueError for shapes, dtypes and devices that don't fit.
    A position must be a row of the table: checked on a CPU (IndexError), and on a GPU up to the
    caller, because looking would stop the stream.
    """
    _check(positions, q, k, cos_sin)
    positions, q, k, cos_sin = (x.contiguous() for x in (positions, q, k, cos_sin))
    q_out, k_out = torch.empty_like(q), torch.empty_like(k)
    tokens, num_heads, head_dim = q.shape
    if tokens == 0 or q.shape[1] + k.shape[1] == 0:
        return q_out, k_out
    wide = 16 // q.element_size()
    if (head_dim // 2) % wide or any(x.data_ptr() % 16 for x in (q, k, cos_sin)):
        name, per_thread = "rope", 1
    else:
        name, per_thread = "rope_wide", wide
    work = (num_heads + k.shape[1]) * (head_dim // 2) // per_thread
    block = min(MAX_THREADS, -(-work // 32) * 32)  # whole warps
    args = (q_out, k_out, q, k, positions, cos_sin, num_heads, k.shape[1], head_dim)
    _kernel(name, q.dtype)((tokens,), (block,), args)
    return q_out, k_out


MAX_THREADS = 512  # of a block; a token with more pairs than that takes several rounds


@cache
def _kernel(name: str, dtype: torch.dtype):
    return load("rope.cu", name, scalar_t=dtype)


def _check(
    positions: torch.Tensor, q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor
) -> None:
    if q.dim() != 3 or k.dim() != 3 or q.shape[0] != k.shape[0] or q.shape[2] != k.shape[2]:
        raise ValueError(
            "rope takes q [T, num_heads, head_dim] and k [T, num_kv_heads, head_dim], got"
            f" {list(q.shape)} and {list(k.shape)}"
        )
    tokens, _, head_dim = q.shape
    if head_dim % 2 or head_dim == 0:
        raise ValueError(f"rope turns pairs, so head_dim must be even and not 0, got {head_dim}")
    if positions.shape != (tokens,) or positions.dtype != torch.int64:
        raise ValueError(
            f"positions must be int64 [{tokens}], one a token, got {positions.dtype}"
            f" {list(positions.shape)}"
        )
    if cos_sin.dim() != 2 or cos_sin.shape[1] != head_dim or cos_sin.dtype != torch.float32:
        raise ValueError(
            f"cos_sin must be float32 [max_len, {head_dim}] (see cos_sin_table), got"
            f" {cos_sin.dtype} {list(cos_sin.shape)}"
        )
    if q.dtype != k.dtype or q.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(
            "q and k must both be float32, float16 or bfloat16, got"
            f" {str(q.dtype).removeprefix('torch.')} and {str(k.dtype).removeprefix('torch.')}"
        )
    devices = [x.device for x in (positions, q, k, cos_sin)]
    if len(set(devices)) > 1:
        raise ValueError(
            "positions, q, k and cos_sin must be on one device, got " + ", ".join(map(str, devices))
        )
    if q.device.type == "cpu" and tokens:
        low, high = positions.min().item(), positions.max().item()
        if low < 0 or high >= len(cos_sin):
            raise IndexError(
                f"position {low if low < 0 else high} is outside the table of {len(cos_sin)}"
                " positions"
            )
