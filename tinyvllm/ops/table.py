"""The ops table: everything a model computes, by name. A model holds one; nothing is global.

`reference_ops` composes the plain definitions of this folder. A faster table fills the same
slots, fused ones included (`add_rms_norm`, `rope_and_store`), and the model doesn't notice.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tinyvllm.ops.attention import attention_reference
from tinyvllm.ops.embedding import embedding_reference
from tinyvllm.ops.gemm import linear_reference
from tinyvllm.ops.rms_norm import add_rms_norm_reference, rms_norm_reference
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


def rope_and_store_reference(
    positions: Tensor, q: Tensor, k: Tensor, v: Tensor, cos_sin: Tensor, slots: KVSlots | None
) -> tuple[Tensor, Tensor]:
    """Rotates q and k, and writes k and v into the cache, if there is one.

    Shapes as in `rope_reference`; v as k. Returns the rotated (q, k).
    """
    q, k = rope_reference(positions, q, k, cos_sin)
    if slots is not None:
        slots.k_cache.index_copy_(0, slots.slot_mapping, k)
        slots.v_cache.index_copy_(0, slots.slot_mapping, v)
    return q, k


@dataclass(frozen=True)
class Ops:
    """One function a slot; each one's shapes are in its reference's docstring."""

    embedding: Callable[[Tensor, Tensor], Tensor] = embedding_reference
    rms_norm: Callable[[Tensor, Tensor, float], Tensor] = rms_norm_reference
    add_rms_norm: Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]] = (
        add_rms_norm_reference
    )
    rope_and_store: Callable[..., tuple[Tensor, Tensor]] = rope_and_store_reference
    attention: Callable[[Tensor, Tensor, Tensor], Tensor] = attention_reference
    silu_mul: Callable[[Tensor], Tensor] = silu_mul_reference
    linear: Callable[..., Tensor] = linear_reference


reference_ops = Ops()
