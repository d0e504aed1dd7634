"""The kernels of rms_norm.cu: RMSNorm as torch computes it in float64, at any size, both sides."""

import pytest
import torch

from tinyvllm.cuda import load
from tinyvllm.ops.rms_norm import rms_norm_kernel, rms_norm_reference

EPS = 1e-5
TOLERANCES = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 2e-6}  # of the value
DTYPES = list(TOLERANCES)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here: run `make test-gpu` on a machine that has one")
    return request.param


def example(num_tokens: int, hidden_size: int, dtype: torch.dtype, device: str = "cpu"):
    """x [num_tokens, hidden_size] with rows of sizes from 0.01 to 100, weight [hidden_size]."""
    rng = torch.Generator().manual_seed(num_tokens * 10_007 + hidden_size)
    x = torch.randn(num_tokens, hidden_size, generator=rng)
    x *= torch.logspace(-2, 2, num_tokens)[:, None]
    weight = torch.randn(hidden_size, generator=rng)
    return x.to(dtype).to(device), weight.to(dtype).to(device)


def oracle(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    """In float64, rounded once, before the weight."""
    wide = x.double()
    normed = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    return normed.to(x.dtype).double() * weight.double()


def assert_close(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float = EPS):
    assert out.shape == x.shape and out.dtype == x.dtype and out.device == x.device
    torch.testing.assert_close(
        out.double(), oracle(x, weight, eps), rtol=TOLERANCES[x.dtype], atol=1e-6
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden_size", [1, 2, 7, 8, 31, 33, 100, 576, 577, 2048, 8192, 16392])
def test_any_hidden_size(device, dtype, hidden_size):
    x, weight = example(3, hidden_size, dtype, device)
    assert_close(rms_norm_kernel(x, weight, EPS), x, weight)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reference_is_rms_norm_too(dtype):
    x, weight = example(5, 576, dtype)
    assert_close(rms_norm_reference(x, weight, EPS), x, weight)


def test_many_rows(device):
    x, weight = example(1000, 64, torch.bfloat16, device)
    assert_close(rms_norm_kernel(x, weight, EPS), x, weight)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here: `make test-gpu`")
def test_more_elements_than_an_int_counts():
    x = torch.ones(300_000, 8192, dtype=torch.bfloat16, device="cuda")
    x[-1] = 3.0
    out = rms_norm_kernel(x, torch.full_like(x[0], 2.0), 0.0)
    assert (out == 2.0).all()


def test_no_rows_and_no_columns(device):
    for shape in ((0, 64), (4, 0)):
        x = torch.empty(shape, device=device)
        assert rms_norm_kernel(x, torch.empty(shape[1], device=device), EPS).shape == shape


def test_arrays_that_are_not_aligned_to_16_bytes(device):
    weight = torch.randn(65, device=device).bfloat16()
    for start in (1, 2, 4):
        storage = torch.randn(3 * 64 + start, device=device).bfloat16()
        x = storage[start:].view(3, 64)
        assert_close(rms_norm_kernel(x, weight[1:], EPS), x, weight[1:])


def test_rows_of_a_wider_tensor(device):
    x, weight = example(4, 96, torch.float16, device)
    assert_close(rms_norm_kernel(x[:, 16:80], weight[:64], EPS), x[:, 16:80], weight[:64])
    assert_close(rms_norm_kernel(x.T[:, :4], weight[:4], EPS), x.T[:, :4], weight[:4])


def test_eps_keeps_zeros_at_zero(device):
    x, weight = torch.zeros(2, 40, device=device), torch.ones(40, device=device)
    x[1] = 1e-3
    assert_close(rms_norm_kernel(x, weight, 1e-6), x, weight, 1e-6)


def test_large_numbers_do_not_overflow_and_nan_stays(device):
    x = torch.full((3, 512), 60_000.0, device=device).half()
    x[1, 100] = torch.nan
    out = rms_norm_kernel(x, torch.ones(512, device=device).half(), EPS)
    assert (out[0] == 1).all() and out[1].isnan().all() and (out[2] == 1).all()


def test_the_input_stays_as_it_is(device):
    x, weight = example(2, 576, torch.bfloat16, device)
    before = x.clone()
    assert rms_norm_kernel(x, weight, EPS).data_ptr() != x.data_ptr()
    assert torch.equal(x, before)


@pytest.mark.parametrize(
    ("x", "weight", "error", "words"),
    [
        (torch.ones(4), torch.ones(4), ValueError, r"x \[T, hidden_size\].*not \[4\] and \[4\]"),
        (torch.ones(2, 4), torch.ones(3), ValueError, r"not \[2, 4\] and \[3\]"),
        (torch.ones(2, 4), torch.ones(4).half(), TypeError, "float32 and torch.float16"),
        (torch.ones(2, 4).double(), torch.ones(4).double(), TypeError, "not torch.float64"),
        (torch.ones(2, 4), torch.ones(4, device="meta"), ValueError, "x is on cpu.*on meta"),
    ],
    ids=["one dimension", "weight too short", "two dtypes", "float64", "two devices"],
)
def test_wrong_arguments_are_refused_in_words(x, weight, error, words):
    with pytest.raises(error, match=words):
        rms_norm_kernel(x, weight, EPS)


# ---- every version in check mode, blocks that don't fit the row ----


def checked(file, name, x, weight, threads, *more, grid=None):
    out = torch.full_like(x, torch.nan)
    scalar_t = {torch.bfloat16: "bf16", torch.float16: "half", torch.float32: "float"}[x.dtype]
    kernel = load(file, name, scalar_t=scalar_t)
    args = (out, x, weight, x.shape[1], EPS, *more)
    kernel.check(grid or (len(x),), (threads,), args)
    assert_close(out, x, weight)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("hidden_size", "threads"), [(1, 32), (33, 32), (77, 128), (576, 96), (300, 1024)]
)
def test_the_kernel_for_any_size_is_clean(dtype, hidden_size, threads):
    checked("rms_norm.cu", "rms_norm", *example(3, hidden_size, dtype), threads)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("hidden_size", "threads"), [(8, 32), (264, 32), (576, 96), (576, 1024), (2056, 64)]
)
def test_the_kernel_with_wide_loads_is_clean(dtype, hidden_size, threads):
    checked("rms_norm.cu", "rms_norm_wide", *example(3, hidden_size, dtype), threads)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_steps_on_the_way_are_clean(dtype):
    x, weight = example(35, 50, dtype)
    checked("rms_norm_steps.cu", "rms_norm_serial", x, weight, 32, 35, grid=(2,))
    for name in ("rms_norm_modulo", "rms_norm_tree"):
        for threads in (1, 16, 64):
            checked("rms_norm_steps.cu", name, x[:3], weight, threads)


def test_wide_loads_move_the_floor_and_the_weight():
    x, weight = example(4, 2048, torch.bfloat16)
    out = torch.empty_like(x)
    kernel = load("rms_norm.cu", "rms_norm_wide", scalar_t="bf16")
    total = kernel.profile((4,), (256,), (out, x, weight, 2048, EPS)).total
    assert total.global_load.bytes_moved == 2 * x.numel() + 2 * weight.numel() * len(x)
    assert total.global_store.bytes_moved == 2 * x.numel()
    assert total.barriers == len(x)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here: `make test-gpu`")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden_size", [33, 576, 2048, 8192])
def test_emulator_and_gpu_agree(dtype, hidden_size):
    x, weight = example(4, hidden_size, dtype)
    on_gpu = rms_norm_kernel(x.cuda(), weight.cuda(), EPS).cpu()
    torch.testing.assert_close(
        on_gpu, rms_norm_kernel(x, weight, EPS), rtol=TOLERANCES[dtype], atol=1e-6
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here: `make test-gpu`")
def test_a_cuda_graph_replays_it():
    x, weight = example(4, 2048, torch.bfloat16, "cuda")
    rms_norm_kernel(x, weight, EPS)  # compiled before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = rms_norm_kernel(x, weight, EPS)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    assert_close(out, x, weight)
