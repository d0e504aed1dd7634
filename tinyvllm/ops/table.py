"""The ops table: everything a model computes, by name. A model holds one; nothing is global.

`compose` makes a table out of the plain pieces of this folder: its fused slots (`add_rms_norm`,
`rope_and_store`) are one piece after another. A faster table fills the same slots with one kernel
each, and the model doesn't notice.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tinyvllm.ops.attention import attention_reference
from tinyvllm.ops.embedding import embedding_reference
from tinyvllm.ops.gemm import linear_reference
from tinyvllm.ops.rms_norm import rms_norm_reference
from tinyvllm.ops.rope import rope_reference
from tinyvllm.ops.swiglu import silu_mul_reference

Tensor = torch.Tensor


@dataclass(frozen=True)
class KVSlots:
    """Where one layer's new keys and values go.

    k_cache, v_cache [num_slots, num_kv_heads, head_dim]; slot_mapping [T] int64: the slot of each
    token of the batch.
    """

    k_cache: Tensor
    v_cache: Tensor
    slot_mapping: Tensor


@dataclass(frozen=True)
class Ops:
    """One function a slot; shapes are in the docstrings of the references.

    add_rms_norm(x, residual, weight, eps) adds a block's output x [T, hidden_size] to the residual
    stream, and normalises the sum for the next block: (normed, new residual).
    rope_and_store(positions, q, k, v, cos_sin, slots) rotates q and k, and writes k and v into the
    cache, if slots is a KVSlots and not None: the rotated (q, k).
    """

    embedding: Callable[[Tensor, Tensor], Tensor]
    rms_norm: Callable[[Tensor, Tensor, float], Tensor]
    add_rms_norm: Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]
    rope_and_store: Callable[..., tuple[Tensor, Tensor]]
    attention: Callable[[Tensor, Tensor, Tensor], Tensor]
    silu_mul: Callable[[Tensor], Tensor]
    linear: Callable[..., Tensor]


def compose(
    *,
    embedding=embedding_reference,
    rms_norm=rms_norm_reference,
    rope=rope_reference,
    attention=attention_reference,
    silu_mul=silu_mul_reference,
    linear=linear_reference,
) -> Ops:
    """A table of these pieces, the fused slots composed of them; by default of the references."""

    def add_rms_norm(x, residual, weight, eps):
        residual = residual + x
        return rms_norm(residual, weight, eps), residual

    def rope_and_store(positions, q, k, v, cos_sin, slots):
        q, k = rope(positions, q, k, cos_sin)
        if slots is not None:
            slots.k_cache.index_copy_(0, slots.slot_mapping, k)
            slots.v_cache.index_copy_(0, slots.slot_mapping, v)
        return q, k

    return Ops(embedding, rms_norm, add_rms_norm, rope_and_store, attention, silu_mul, linear)


reference_ops = compose()
