# expects: adjacent pairs (2i, 2i + 1)
def rope_reference(
    positions: torch.Tensor, q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates each pair (i, i + head_dim/2) of every head by its position's angle.

    positions [T] int64, q [T, num_heads, head_dim], k [T, num_kv_heads, head_dim],
    cos_sin [max_model_len, head_dim] float32 -> (q, k), rotated, in their dtypes.
    """
    cos, sin = cos_sin.index_select(0, positions).unsqueeze(1).chunk(2, dim=-1)

    def rotate(x: torch.Tensor) -> torch.Tensor:
        x1, x2 = x.float()[..., 0::2], x.float()[..., 1::2]
        return torch.stack((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1).flatten(-2).to(x.dtype)

    return rotate(q), rotate(k)
