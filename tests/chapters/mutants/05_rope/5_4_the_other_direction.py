# expects: first the even rows, then the odd ones
def to_half_split(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Rows of a query or key matrix, reordered from adjacent to half-split pairs.

    weight [num_heads * head_dim, hidden_size] -> the same shape and dtype, a new tensor.
    """
    rows, hidden_size = weight.shape
    pairs = weight.view(num_heads, 2, rows // num_heads // 2, hidden_size)
    return pairs.transpose(1, 2).reshape(rows, hidden_size)
