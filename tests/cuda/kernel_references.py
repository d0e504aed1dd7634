"""What the test kernels must compute, in plain float64 torch."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x [rows, hidden_size], weight [hidden_size] -> [rows, hidden_size] f64."""
    x, weight = x.double(), weight.double()
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """q [num_seqs, num_heads, head_dim], caches [num_blocks, block_size, num_kv_heads, head_dim] ->
    like q, f64."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    block_size, group = k_cache.shape[1], q.shape[1] // k_cache.shape[2]
    for s, n in enumerate(seq_lens.tolist()):
        blocks = block_tables[s, : -(-n // block_size)].long()
        k = k_cache[blocks].flatten(0, 1)[:n].double().repeat_interleave(group, dim=1)
        v = v_cache[blocks].flatten(0, 1)[:n].double().repeat_interleave(group, dim=1)
        if n:
            weights = (torch.einsum("hd,nhd->hn", q[s].double(), k) * scale).softmax(-1)
            out[s] = torch.einsum("hn,nhd->hd", weights, v)
    return out
