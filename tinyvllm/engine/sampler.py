"""Sampler: from logits to token ids, for a whole batch, without a loop over its requests.

Order of operations, as vLLM's: temperature, min-p, top-k, top-p, draw. The draw is the Gumbel-max
trick (argmax of logits plus Gumbel noise is a draw from their softmax), with noise that is a hash
of (seed, step, token id): integer arithmetic, so it is the same on a CPU and on a GPU, for
a request alone and in a batch.
"""

from collections.abc import Sequence

import torch

from tinyvllm.sampling_params import SamplingParams

MASK32 = 0xFFFFFFFF


def sample(
    logits: torch.Tensor,
    params: Sequence[SamplingParams],
    seeds: Sequence[int],
    steps: Sequence[int],
) -> torch.Tensor:
    """One token id a row.

    logits [S, vocab_size] float32; one SamplingParams, seed and step (how many tokens the request
    has generated) a row -> [S] int64.
    """
    if all(p.greedy for p in params):
        return logits.argmax(dim=-1)

    def column(values, dtype=torch.float32) -> torch.Tensor:
        return torch.tensor(list(values), dtype=dtype, device=logits.device).unsqueeze(1)

    greedy = column((p.greedy for p in params), torch.bool)
    scaled = logits / column(1.0 if p.greedy else p.temperature for p in params)
    if any(p.min_p > 0 for p in params):
        scaled = mask_min_p(scaled, column(p.min_p for p in params))
    if any(p.top_k > 0 or p.top_p < 1 for p in params):
        vocab = logits.shape[1]
        top_k = column((p.top_k if p.top_k > 0 else vocab for p in params), torch.int64)
        scaled = mask_top_k_top_p(scaled, top_k, column(p.top_p for p in params))
    seed = column((s & MASK32 for s in seeds), torch.int64)
    seed_high = column((s >> 32 & MASK32 for s in seeds), torch.int64)
    noise = gumbel_noise(seed, seed_high, column(steps, torch.int64), logits.shape[1])
    return torch.where(greedy, logits, scaled + noise).argmax(dim=-1)


def mask_min_p(logits: torch.Tensor, min_p: torch.Tensor) -> torch.Tensor:
    """-inf for tokens less likely than min_p times the likeliest. [S, vocab_size], [S, 1]."""
    # p_i < min_p * p_max, in logarithms; log(0) = -inf keeps everything.
    threshold = logits.amax(dim=-1, keepdim=True) + min_p.log()
    return logits.masked_fill(logits < threshold, -torch.inf)


def mask_top_k_top_p(
    logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """-inf for all but the top_k likeliest, then for those outside the top_p nucleus.

    logits [S, vocab_size], top_k [S, 1] int64 (at least 1), top_p [S, 1]. The nucleus is taken on
    the softmax of what top_k left, and always keeps the likeliest token.
    """
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(logits.shape[1], device=logits.device)
    ordered = ordered.masked_fill(rank >= top_k, -torch.inf)
    probabilities = ordered.softmax(dim=-1)
    mass_before = probabilities.cumsum(dim=-1) - probabilities
    # top_p = 1 keeps all: there, mass_before may reach 1 by rounding alone.
    outside = (mass_before >= top_p) & (top_p < 1)
    outside[:, 0] = False
    ordered = ordered.masked_fill(outside, -torch.inf)
    return torch.empty_like(logits).scatter_(1, order, ordered)


def gumbel_noise(
    seed: torch.Tensor, seed_high: torch.Tensor, step: torch.Tensor, vocab_size: int
) -> torch.Tensor:
    """Standard Gumbel noise for every token: [S, vocab_size] float32.

    seed, seed_high, step [S, 1] int64, each in [0, 2^32).
    """
    token = torch.arange(vocab_size, device=seed.device)
    bits = hash32(hash32(hash32(hash32(seed) ^ seed_high) ^ step) ^ token)
    # u in (0, 1); -log(-log(1 - u)) needs u near 0 to be exact, which floats are.
    u = ((bits.float() + 0.5) * 2.0**-32).clamp(max=1 - 2.0**-24)
    return -(-torch.log1p(-u)).log()


def hash32(x: torch.Tensor) -> torch.Tensor:
    """A 32-bit mix of integers held in int64 ("lowbias32", Wellons 2018), any shape."""
    x = x ^ (x >> 16)
    x = _multiply32(x, 0x7FEB352D)
    x = x ^ (x >> 15)
    x = _multiply32(x, 0x846CA68B)
    return x ^ (x >> 16)


def _multiply32(x: torch.Tensor, factor: int) -> torch.Tensor:
    """x * factor modulo 2^32, in two halves so that int64 never overflows."""
    low = x * (factor & 0xFFFF)
    high = (x * (factor >> 16) & 0xFFFF) << 16
    return (low + high) & MASK32
