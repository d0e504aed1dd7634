"""Which ops table runs a model on a device, and in which dtype its matrices are kept."""

from collections.abc import Collection
from dataclasses import replace

import torch

from tinyvllm.ops.cpu_linear import bf16_linear
from tinyvllm.ops.gemm import linear_split
from tinyvllm.ops.table import Ops, reference_ops


def select_ops(
    device: torch.device, dtype: torch.dtype, stored: Collection[str]
) -> tuple[Ops, torch.dtype]:
    """(table, dtype of the matrices): the fastest that computes what `reference_ops` computes.

    dtype: of the computation. stored: the dtypes of the checkpoint's tensors, as its files name
    them; matrices are kept as bfloat16 only if they came as bfloat16.
    """
    if device.type == "cpu" and dtype == torch.float32:
        if set(stored) == {"BF16"} and (linear := bf16_linear()):
            return replace(reference_ops, linear=linear), torch.bfloat16
        return replace(reference_ops, linear=linear_split), dtype
    return reference_ops, dtype
