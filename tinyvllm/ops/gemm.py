"""Linear layers: y = x·Wᵀ + b, by the library that multiplies matrices best on each device."""

import torch
import torch.nn.functional as F

BANDS = 8  # a small multiple of the threads of a small machine


def linear_reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x [T, in], weight [out, in], bias [out] -> [T, out]. float32 accumulation."""
    return F.linear(x, weight, bias)


def linear_split(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """`linear_reference`, faster for one token on a CPU; shapes as there.

    A matrix times one vector is bound by reading the matrix, and MKL reads it with one thread.
    Cut into bands of rows it is a batch of products, which MKL spreads over all threads.
    """
    rows, columns = weight.shape
    if x.shape[0] != 1 or rows % BANDS:
        return linear_reference(x, weight, bias)
    bands = weight.view(BANDS, rows // BANDS, columns).transpose(1, 2)
    y = torch.bmm(x.expand(BANDS, 1, columns), bands).view(1, rows)
    return y if bias is None else y + bias
