"""Linear layers: y = x·Wᵀ + b, by the library that multiplies matrices best on each device."""

import torch
import torch.nn.functional as F


def linear_reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x [T, in], weight [out, in], bias [out] -> [T, out]. float32 accumulation."""
    return F.linear(x, weight, bias)
