# expects: first the even rows, then the odd ones
def to_half_split(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Rows of a query or key matrix, reordered from adjacent to half-split pairs.

    weight [num_heads * head_dim, hidden_size] -> the same shape and dtype, a new tensor.
    """
    pairs = weight.view(num_heads, -1, 2, weight.shape[1]).flip(2)
    return pairs.transpose(1, 2).reshape(weight.shape)
