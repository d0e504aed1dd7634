"""Which ops table runs on which device."""

from dataclasses import replace

import torch

from tinyvllm.ops.gemm import linear_split
from tinyvllm.ops.table import Ops, reference_ops


def ops_for(device: torch.device, dtype: torch.dtype) -> Ops:
    """The fastest table that computes what `reference_ops` computes, for this device and dtype."""
    if device.type == "cpu" and dtype == torch.float32:
        return replace(reference_ops, linear=linear_split)
    return reference_ops
