"""What a model asks of whoever runs it: attention over everything that came before.

The model never learns how keys and values are kept. Each way of keeping them (not at all, in one
contiguous array, in pages) is one implementation of this protocol.
"""

from typing import Protocol

import torch

from tinyvllm.ops.table import KVSlots, Ops, reference_ops


class Attend(Protocol):
    def slots(self, layer: int) -> KVSlots | None:
        """Where `layer` stores this batch's keys and values; None if it keeps none."""

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """Attention of this batch's queries; k and v are already stored in `slots(layer)`.

        q [T, num_heads, head_dim], k and v [T, num_kv_heads, head_dim]
        -> [T, num_heads, head_dim].
        """


class CausalAttend:
    """One whole sequence at once, nothing kept: what a forward pass without a cache does."""

    def __init__(self, ops: Ops = reference_ops):
        self._attention = ops.attention

    def slots(self, layer: int) -> None:
        return None

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        return self._attention(q, k, v)
