# expects: keep cosines and sines in float32
def rope_reference(
    positions: torch.Tensor, q: torch.Tensor, k: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates each pair (i, i + head_dim/2) of every head by its position's angle.

    positions [T] int64, q [T, num_heads, head_dim], k [T, num_kv_heads, head_dim],
    cos_sin [max_model_len, head_dim] float32 -> (q, k), rotated, in their dtypes.
    """
    cos, sin = cos_sin.index_select(0, positions).unsqueeze(1).chunk(2, dim=-1)

    def rotate(x: torch.Tensor) -> torch.Tensor:
        cosines, sines = cos.to(x.dtype), sin.to(x.dtype)
        x1, x2 = x.float().chunk(2, dim=-1)
        return torch.cat((x1 * cosines - x2 * sines, x2 * cosines + x1 * sines), dim=-1).to(x.dtype)

    return rotate(q), rotate(k)
