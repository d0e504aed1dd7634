"""Embedding lookup: a token id becomes a row of the table."""

import torch


def embedding_reference(token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Row `token_ids[t]` of the table for every t.

    token_ids [T] int64, weight [vocab_size, hidden_size] -> [T, hidden_size], weight's dtype.
    """
    return weight.index_select(0, token_ids)
