"""Attention: every query looks at the keys before it (Vaswani et al. 2017, arXiv:1706.03762).

Grouped queries (Ainslie et al. 2023, arXiv:2305.13245): query head h reads key/value head
h // (num_heads / num_kv_heads).
"""

import torch
import torch.nn.functional as F


def attention_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """softmax(q·kᵀ / sqrt(head_dim))·v, where the T queries are the last T of S positions.

    q [T, num_heads, head_dim], k and v [S, num_kv_heads, head_dim], S >= T
    -> [T, num_heads, head_dim]. Query t sees the keys 0 .. S - T + t.
    """
    num_queries, num_keys = q.shape[0], k.shape[0]
    mask = None
    if 1 < num_queries < num_keys:
        mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=q.device)
        mask = mask.tril(num_keys - num_queries)
    out = F.scaled_dot_product_attention(
        q.transpose(0, 1).unsqueeze(0),
        k.transpose(0, 1).unsqueeze(0),
        v.transpose(0, 1).unsqueeze(0),
        attn_mask=mask,
        is_causal=mask is None and num_queries > 1,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return out.squeeze(0).transpose(0, 1)
