# expects: pairs that are blended
def inverse_frequencies(
    head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> torch.Tensor:
    """Radians per position of each pair, with Llama 3's scaling if any: [head_dim / 2] float32.

    scaling: factor, low_freq_factor, high_freq_factor, original_max_position_embeddings (tokens).
    """
    frequencies = base_frequencies(head_dim, theta)
    if scaling is None:
        return frequencies
    wavelengths = 2 * math.pi / frequencies  # in tokens
    turns = scaling.original_max_position_embeddings / wavelengths
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = (turns > low).float()
    return keep * frequencies + (1 - keep) * frequencies / scaling.factor
