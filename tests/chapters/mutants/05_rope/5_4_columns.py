# expects: the new order of the rows
def to_half_split(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Rows of a query or key matrix, reordered from adjacent to half-split pairs.

    weight [num_heads * head_dim, hidden_size] -> the same shape and dtype, a new tensor.
    """
    return torch.cat((weight[:, 0::2], weight[:, 1::2]), dim=1)
