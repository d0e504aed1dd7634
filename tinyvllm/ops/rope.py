"""RoPE (Su et al. 2021, arXiv:2104.09864): position as rotation.

Pairs are half-split, (i, i + head_dim/2), as in Hugging Face's checkpoints; the paper's own pairs
are adjacent. Llama 3's scaling of long wavelengths follows its reference release (2024).
"""

import math

import torch

from tinyvllm.config import RopeScaling


def inverse_frequencies(
    head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> torch.Tensor:
    """Radians per position of each pair, theta^(-2i/head_dim): [head_dim / 2] float32."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    frequencies = 1.0 / theta**exponents
    if scaling is None:
        return frequencies
    wavelengths = 2 * math.pi / frequencies  # in tokens
    old_length = scaling.original_max_position_embeddings
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    # 0 for waves longer than old_length / low (stretched), 1 for those shorter than
    # old_length / high (kept), and a straight blend between.
    keep = ((old_length / wavelengths - low) / (high - low)).clamp(0, 1)
    return (1 - keep) * frequencies / scaling.factor + keep * frequencies


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
