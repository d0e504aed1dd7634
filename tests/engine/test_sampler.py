"""The sampler: the masks against plain definitions, the noise against statistics."""

import pytest
import torch

from tinyvllm.engine.sampler import gumbel_noise, hash32, mask_min_p, mask_top_k_top_p, sample
from tinyvllm.sampling_params import SamplingParams

VOCAB = 50


def random_logits(rows=4, seed=0):
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def allowed(masked_row):
    return set(torch.isfinite(masked_row).nonzero().flatten().tolist())


def column(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


@pytest.mark.parametrize("k", [1, 2, 7, VOCAB])
def test_top_k_keeps_the_k_likeliest(k):
    logits = random_logits(1)
    masked = mask_top_k_top_p(logits, column(k, dtype=torch.int64), column(1.0))
    assert allowed(masked[0]) == set(logits[0].topk(k).indices.tolist())
    kept = torch.isfinite(masked)
    assert torch.equal(masked[kept], logits[kept])


@pytest.mark.parametrize("p", [1e-6, 0.1, 0.5, 0.9, 0.999])
def test_top_p_keeps_the_smallest_set_that_reaches_p(p):
    logits = random_logits(1)
    probabilities = logits[0].softmax(-1).tolist()
    nucleus, mass = set(), 0.0
    for i in sorted(range(VOCAB), key=lambda i: -probabilities[i]):
        if mass >= p:
            break
        nucleus.add(i)
        mass += probabilities[i]
    masked = mask_top_k_top_p(logits, column(VOCAB, dtype=torch.int64), column(p))
    assert allowed(masked[0]) == nucleus


def test_top_p_is_taken_on_what_top_k_left():
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    # Of {0.4, 0.3}, renormalised to {0.571, 0.429}, p = 0.55 keeps the first alone.
    masked = mask_top_k_top_p(logits, column(2, dtype=torch.int64), column(0.55))
    assert allowed(masked[0]) == {0}
    masked = mask_top_k_top_p(logits, column(4, dtype=torch.int64), column(0.55))
    assert allowed(masked[0]) == {0, 1}


def test_min_p_is_relative_to_the_likeliest():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert allowed(mask_min_p(logits, column(0.4))[0]) == {0, 1}
    assert allowed(mask_min_p(logits, column(0.0))[0]) == {0, 1, 2, 3}
    assert allowed(mask_min_p(logits, column(1.0))[0]) == {0}


def test_rows_with_other_parameters_do_not_mix():
    logits = random_logits(3)
    masked = mask_top_k_top_p(logits, column(1, VOCAB, 3, dtype=torch.int64), column(1.0, 0.5, 1.0))
    assert [len(allowed(row)) for row in masked][::2] == [1, 3]
    alone = mask_top_k_top_p(logits[1:2], column(VOCAB, dtype=torch.int64), column(0.5))
    assert torch.equal(masked[1:2], alone)


def test_temperature_zero_is_argmax_also_beside_sampled_rows():
    logits = random_logits(3)
    params = [SamplingParams(temperature=t) for t in (0, 1.0, 0)]
    tokens = sample(logits, params, [1, 2, 3], [0, 0, 0])
    assert tokens[0] == logits[0].argmax() and tokens[2] == logits[2].argmax()


def test_a_request_draws_the_same_alone_and_in_a_batch():
    logits = random_logits(4)
    params = [SamplingParams(temperature=0.7, top_p=p) for p in (0.3, 0.9, 1.0, 0.5)]
    seeds, steps = [11, 2**40 + 5, -3, 0], [0, 9, 2, 7]
    together = sample(logits, params, seeds, steps)
    alone = [
        sample(logits[i : i + 1], params[i : i + 1], seeds[i : i + 1], steps[i : i + 1]).item()
        for i in range(4)
    ]
    assert together.tolist() == alone


def draws(params, logits, count, seed=0):
    rows = logits.expand(count, -1)
    return sample(rows, [params] * count, [seed] * count, range(count))


@pytest.mark.parametrize(
    "params",
    [SamplingParams(), SamplingParams(temperature=0.5), SamplingParams(top_k=5, top_p=0.8)],
    ids=["plain", "temperature", "top-k and top-p"],
)
def test_draws_follow_the_distribution(params):
    """Chi-square over 20,000 steps of one seed. A right sampler fails once in 10,000 seeds."""
    logits = torch.linspace(0, 3, 12).unsqueeze(0)
    count = 20_000
    scaled = logits / params.temperature
    if params.top_k:
        scaled = mask_top_k_top_p(
            scaled, column(params.top_k, dtype=torch.int64), column(params.top_p)
        )
    expected = scaled[0].softmax(-1) * count
    observed = torch.bincount(draws(params, logits, count), minlength=12).float()
    possible = expected > 0
    assert observed[~possible].sum() == 0
    cells = int(possible.sum())
    chi2 = ((observed - expected)[possible] ** 2 / expected[possible]).sum().item()
    # Wilson and Hilferty's approximation of the chi-square quantile at 0.9999 (z = 3.719).
    f = cells - 1
    limit = f * (1 - 2 / (9 * f) + 3.719 * (2 / (9 * f)) ** 0.5) ** 3
    assert chi2 < limit


def test_other_seeds_and_steps_give_other_draws():
    logits = torch.zeros(1, 1000)
    a, b = (draws(SamplingParams(), logits, 200, seed=s) for s in (1, 2))
    assert (a == b).float().mean() < 0.05
    assert len(set(a.tolist())) > 150


def test_the_noise_is_standard_gumbel():
    zero = column(0, dtype=torch.int64)
    noise = gumbel_noise(column(5, dtype=torch.int64), zero, zero, 200_000)[0].double()
    assert torch.isfinite(noise).all()
    assert abs(noise.mean().item() - 0.5772157) < 0.02  # Euler's constant
    assert abs(noise.var().item() - 1.6449341) < 0.05  # pi² / 6


def test_the_hash_is_the_published_one_and_a_bijection_on_32_bits():
    def reference(x):
        x ^= x >> 16
        x = x * 0x7FEB352D % 2**32
        x ^= x >> 15
        x = x * 0x846CA68B % 2**32
        return x ^ x >> 16

    values = [0, 1, 2, 12345, 2**31, 2**32 - 1]
    assert hash32(torch.tensor(values)).tolist() == [reference(v) for v in values]
    assert len(set(hash32(torch.arange(100_000)).tolist())) == 100_000


@pytest.mark.gpu
def test_the_gpu_draws_what_the_cpu_draws():
    logits = random_logits(64, seed=3)
    params = [SamplingParams(temperature=0.8, top_k=20, top_p=0.95)] * 64
    arguments = params, list(range(64)), list(range(64))
    assert sample(logits.cuda(), *arguments).cpu().tolist() == sample(logits, *arguments).tolist()
    one = column(7, dtype=torch.int64)
    on_cpu = gumbel_noise(one, one, one, 10_000)
    torch.testing.assert_close(
        gumbel_noise(one.cuda(), one.cuda(), one.cuda(), 10_000).cpu(), on_cpu
    )
