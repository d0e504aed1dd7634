"""The contiguous KV cache: one sequence's keys and values, layer by layer, in one array each."""

import torch

from tinyvllm.config import ModelConfig
from tinyvllm.ops.table import KVSlots, Ops


class ContiguousKVCache:
    """Keys and values of one sequence: [num_layers, capacity, num_kv_heads, head_dim] each.

    `reserve` makes room for a sequence; what was there is lost when the arrays grow.
    """

    def __init__(self, config: ModelConfig, *, dtype: torch.dtype, device: torch.device):
        self._layers = config.num_hidden_layers
        self._heads, self._head_dim = config.num_key_value_heads, config.head_dim
        self._dtype, self._device = dtype, device
        self.reserve(0)

    def reserve(self, num_tokens: int) -> None:
        """Room for `num_tokens`; keeps the arrays when they are large enough."""
        if getattr(self, "k", None) is not None and num_tokens <= self.k.shape[1]:
            return
        shape = (self._layers, num_tokens, self._heads, self._head_dim)
        self.k = torch.empty(shape, dtype=self._dtype, device=self._device)
        self.v = torch.empty(shape, dtype=self._dtype, device=self._device)


class ContiguousAttend:
    """Attention of the tokens at `positions` of the cached sequence over all up to the last.

    positions [T] int64, consecutive; end: one past the last of them.
    """

    def __init__(self, ops: Ops, cache: ContiguousKVCache, positions: torch.Tensor, end: int):
        self._attention = ops.attention
        self._cache, self._positions, self._end = cache, positions, end

    def slots(self, layer: int) -> KVSlots:
        return KVSlots(self._cache.k[layer], self._cache.v[layer], self._positions)

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        cache, end = self._cache, self._end
        return self._attention(q, cache.k[layer, :end], cache.v[layer, :end])
