"""RoPE's kernels against torch in float64, in the emulator and (marked gpu) on an NVIDIA GPU."""

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from tinyvllm.config import RopeScaling
from tinyvllm.cuda import load
from tinyvllm.ops.rope import (
    MAX_THREADS,
    cos_sin_table,
    inverse_frequencies,
    rope_kernel,
    rope_reference,
)

# One rounding of the result, and a few of float32 inside.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
DTYPES = list(TOLERANCE)
# T, num_heads, num_kv_heads, head_dim: one pair; odd halves; halves of 8 (wide in 16 bits); models.
SHAPES = [
    (1, 1, 1, 2),
    (3, 5, 2, 6),
    (2, 3, 1, 24),
    (4, 2, 2, 16),
    (7, 9, 3, 64),
    (2, 32, 8, 64),
    (2, 8, 2, 128),
    (2, 2, 1, 256),
    (1, 40, 40, 80),
    (300, 1, 1, 4),
]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here: run `make test-gpu` on a machine that has one")
    return request.param


def step(shape: tuple, dtype: torch.dtype, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """positions, q, k and the table of 500 positions, random but fixed."""
    tokens, num_heads, num_kv_heads, head_dim = shape
    generator = torch.Generator().manual_seed(sum(shape))
    positions = torch.randint(500, (tokens,), generator=generator)
    q = torch.randn(tokens, num_heads, head_dim, generator=generator).to(dtype)
    k = torch.randn(tokens, num_kv_heads, head_dim, generator=generator).to(dtype)
    table = cos_sin_table(inverse_frequencies(head_dim, 10_000.0), 500)
    return tuple(x.to(device) for x in (positions, q, k, table))


def turned(x: torch.Tensor, positions: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Pairs as complex numbers, float64."""
    cosines, sines = table[positions].double().unsqueeze(1).chunk(2, dim=-1)
    product = torch.complex(*x.double().chunk(2, dim=-1)) * torch.complex(cosines, sines)
    return torch.cat((product.real, product.imag), dim=-1)


def assert_turned(outputs, positions, q, k, table) -> None:
    for out, x in zip(outputs, (q, k)):
        assert out.dtype == x.dtype and out.is_contiguous()
        tolerance = TOLERANCE[x.dtype]
        torch.testing.assert_close(
            out.double(), turned(x, positions, table), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_pair_is_turned_as_in_float64(shape, dtype, device):
    positions, q, k, table = step(shape, dtype, device)
    assert_turned(rope_kernel(positions, q, k, table), positions, q, k, table)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["rope", "rope_wide"])
def test_both_kernels_are_clean_in_check_mode(name, dtype):
    for shape in [(3, 2, 1, 16), (2, 9, 3, 64)] + [(2, 3, 2, 6)] * (name == "rope"):
        positions, q, k, table = step(shape, dtype)
        for block in (7, 32, MAX_THREADS):
            outputs = torch.full_like(q, torch.nan), torch.full_like(k, torch.nan)
            args = (*outputs, q, k, positions, table, *shape[1:])
            load("rope.cu", name, scalar_t=dtype).check((shape[0],), (block,), args)
            assert_turned(outputs, positions, q, k, table)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_wide_kernel_gives_what_the_plain_one_gives(dtype, device):
    positions, q, k, table = step((6, 5, 3, 64), dtype, device)
    results = []
    for name in ("rope", "rope_wide"):
        outputs = torch.empty_like(q), torch.empty_like(k)
        load("rope.cu", name, scalar_t=dtype)(
            (6,), (64,), (*outputs, q, k, positions, table, 5, 3, 64)
        )
        results.append(outputs)
    # A GPU's compiler may fuse a product and a sum in one of the two: a rounding more or less.
    few_ulp = 1e-6 if device == "cuda" and dtype == torch.float32 else 0
    for plain, wide in zip(*results):
        torch.testing.assert_close(wide, plain, atol=few_ulp, rtol=few_ulp)


def test_views_and_odd_addresses_are_taken(device):
    positions, q, k, table = step((5, 4, 2, 16), torch.bfloat16, device)
    qkv = torch.cat((q.flatten(1), k.flatten(1), k.flatten(1)), dim=1)  # as the model hands it over
    q_view, k_view, _ = qkv.split((64, 32, 32), dim=1)
    outputs = rope_kernel(positions, q_view.view(5, 4, 16), k_view.view(5, 2, 16), table)
    assert_turned(outputs, positions, q, k, table)
    memory = torch.empty(q.numel() + 1, dtype=q.dtype, device=device)
    shifted = memory[1:].view(q.shape).copy_(q)  # not at a multiple of 16 bytes
    assert_turned(rope_kernel(positions, shifted, k, table), positions, q, k, table)


def test_the_inputs_stay(device):
    positions, q, k, table = step((3, 2, 1, 64), torch.float32, device)
    before = q.clone(), k.clone()
    rope_kernel(positions, q, k, table)
    assert torch.equal(q, before[0]) and torch.equal(k, before[1])


def test_no_tokens_give_no_tokens(device):
    positions, q, k, table = step((0, 2, 1, 8), torch.bfloat16, device)
    q_out, k_out = rope_kernel(positions, q, k, table)
    assert q_out.shape == (0, 2, 8) and k_out.shape == (0, 1, 8)


@pytest.mark.gpu
def test_many_tokens_reach_beyond_32_bits_of_elements():
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here: run `make test-gpu` on a machine that has one")
    tokens = (1 << 31) // (32 * 128) + 3
    q = torch.zeros(tokens, 32, 128, dtype=torch.bfloat16, device="cuda")
    q[-1], k = 1, q[:, :1]
    positions = torch.zeros(tokens, dtype=torch.int64, device="cuda")
    positions[-1] = 5
    table = cos_sin_table(inverse_frequencies(128, 10_000.0), 8).cuda()
    q_out, _ = rope_kernel(positions, q, k, table)
    torch.testing.assert_close(
        q_out[-1:].double(), turned(q[-1:], positions[-1:], table), rtol=2.0**-7, atol=2.0**-7
    )
    assert not q_out[:-1:1024].any()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"q": torch.zeros(3, 8)}, ValueError, r"q \[T, num_heads, head_dim\]"),
        ({"k": torch.zeros(2, 1, 8)}, ValueError, r"got \[3, 2, 8\] and \[2, 1, 8\]"),
        ({"k": torch.zeros(3, 1, 6)}, ValueError, "k .T, num_kv_heads, head_dim."),
        ({"k": torch.zeros(3, 1, 8).half()}, ValueError, "float32 and float16"),
        ({"positions": torch.zeros(2).long()}, ValueError, r"int64 \[3\], one a token"),
        ({"positions": torch.zeros(3).int()}, ValueError, "positions must be int64"),
        ({"cos_sin": torch.zeros(10, 6)}, ValueError, r"float32 \[max_len, 8\]"),
        ({"cos_sin": torch.zeros(10, 8).half()}, ValueError, "cos_sin must be float32"),
        ({"positions": torch.tensor([0, 10, 1])}, IndexError, "position 10 is outside the table"),
        ({"positions": torch.tensor([0, -1, 1])}, IndexError, "position -1 is outside"),
        ({"cos_sin": torch.zeros(10, 8, device="meta")}, ValueError, "must be on one device"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(change, error, words):
    given = {
        "positions": torch.zeros(3).long(),
        "q": torch.zeros(3, 2, 8),
        "k": torch.zeros(3, 1, 8),
        "cos_sin": torch.zeros(10, 8),
    }
    with pytest.raises(error, match=words):
        rope_kernel(**{**given, **change})


def test_an_odd_head_is_refused():
    with pytest.raises(ValueError, match="head_dim must be even and not 0, got 5"):
        rope_kernel(
            torch.zeros(1).long(), torch.zeros(1, 1, 5), torch.zeros(1, 1, 5), torch.zeros(9, 5)
        )


def test_frequencies_and_turns_are_those_of_transformers():
    numbers = {
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    parameters = {"rope_type": "llama3", "rope_theta": 500_000.0, **numbers}
    oracle = LlamaRotaryEmbedding(
        LlamaConfig(
            hidden_size=256,
            num_attention_heads=4,
            max_position_embeddings=131_072,
            rope_parameters=parameters,
        )
    )
    frequencies = inverse_frequencies(64, 500_000.0, RopeScaling(**numbers))
    torch.testing.assert_close(frequencies, oracle.inv_freq, rtol=1e-6, atol=0)
    torch.manual_seed(0)
    positions = torch.tensor([0, 1, 500, 499])
    q, k = torch.randn(4, 4, 64), torch.randn(4, 1, 64)
    cos, sin = oracle(q, positions.unsqueeze(0))
    expected = apply_rotary_pos_emb(q.transpose(0, 1)[None], k.transpose(0, 1)[None], cos, sin)
    table = cos_sin_table(frequencies, 501)
    for rope in (rope_reference, rope_kernel):
        for actual, right in zip(rope(positions, q, k, table), expected):
            torch.testing.assert_close(actual, right[0].transpose(0, 1), rtol=1e-4, atol=1e-4)
