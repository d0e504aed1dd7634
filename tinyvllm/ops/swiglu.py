"""SwiGLU (Shazeer 2020, arXiv:2002.05202): the gate of the feed-forward block."""

import torch


def silu_mul_reference(gate_up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, where silu(x) = x * sigmoid(x).

    gate_up [T, 2 * intermediate_size], gate first -> [T, intermediate_size], same dtype.
    """
    gate, up = gate_up.chunk(2, dim=-1)
    return gate * torch.sigmoid(gate) * up
