"""Which ops table runs on which device."""

import torch

from tinyvllm.ops.table import Ops, reference_ops


def ops_for(device: torch.device, dtype: torch.dtype) -> Ops:
    """The fastest table that computes what `reference_ops` computes, for this device and dtype."""
    return reference_ops
