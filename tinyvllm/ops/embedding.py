# Promoted from solutions/03_first_kernel.md: edit it there, then `make build`.
"""Embedding lookup: a token id becomes a row of the table.

A copy without arithmetic, so its time is that of the bytes: each row read once and written once.
The kernels are in kernels/embedding.cu.
"""

import functools

import torch

from tinyvllm.cuda import Kernel, load

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PIECE_BYTES = 16  # the most that a thread moves with one instruction
MAX_THREADS = 1024  # in a block
WARP = 32


def embedding_reference(token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Row `token_ids[t]` of the table for every t.

    token_ids [T] int64, weight [vocab_size, hidden_size] -> [T, hidden_size], weight's dtype.
    """
    return weight.index_select(0, token_ids)


def embedding_kernel(token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What `embedding_reference` computes, by a kernel: on a GPU, or emulated on a CPU.

    token_ids [T] int64, weight [vocab_size, hidden_size] bf16, fp16 or fp32, in one piece
    -> [T, hidden_size], weight's dtype.

    An id that the table doesn't have: IndexError on a CPU. On a GPU, where looking at the ids would
    mean waiting for them, its row is NaN. Raises TypeError and ValueError for other arguments.
    """
    _require_arguments(token_ids, weight)
    (num_tokens,), (vocab_size, hidden_size) = token_ids.shape, weight.shape
    out = weight.new_empty(num_tokens, hidden_size)
    if out.numel() == 0:
        return out  # a grid can't be empty
    row_bytes = hidden_size * weight.element_size()
    if row_bytes % PIECE_BYTES == 0 and weight.data_ptr() % PIECE_BYTES == 0:
        name, items = "embedding_wide", row_bytes // PIECE_BYTES
    else:
        name, items = "embedding", hidden_size
    # Whole warps, as many as have something to do.
    threads = min(MAX_THREADS, -(-items // WARP) * WARP)
    arguments = (out, token_ids.contiguous(), weight, items, vocab_size)
    _kernel(name, weight.dtype)((num_tokens,), (threads,), arguments)
    return out


@functools.cache
def _kernel(name: str, dtype: torch.dtype) -> Kernel:
    return load("embedding.cu", name, scalar_t=dtype)


def _require_arguments(token_ids: torch.Tensor, weight: torch.Tensor) -> None:
    """Raise unless the kernels can take these."""
    if token_ids.dim() != 1 or weight.dim() != 2:
        raise ValueError(
            "embedding takes token_ids [T] and weight [vocab_size, hidden_size], not"
            f" {list(token_ids.shape)} and {list(weight.shape)}"
        )
    if token_ids.dtype != torch.int64 or weight.dtype not in DTYPES:
        raise TypeError(
            "embedding takes token_ids of int64 and a weight of bfloat16, float16 or float32, not"
            f" {token_ids.dtype} and {weight.dtype}"
        )
    if token_ids.device != weight.device:
        raise ValueError(
            f"token_ids are on {token_ids.device} and weight is on {weight.device}:"
            " move one to the other first"
        )
    if not weight.is_contiguous():
        raise ValueError(
            "weight must lie in one piece; weight.contiguous() copies it, so do that once,"
            " not in each step"
        )
    if token_ids.device.type == "cpu" and len(token_ids):
        low, high = token_ids.aminmax()
        if low < 0 or high >= len(weight):
            wrong = int(low if low < 0 else high)
            raise IndexError(f"the table has the ids 0 to {len(weight) - 1}, not {wrong}")
