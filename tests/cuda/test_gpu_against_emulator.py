"""The same kernel, the same inputs, both sides: the GPU's numbers are the emulator's.

Each side is also held to float64. Run with `-s` to see the largest errors as a table.
"""

from pathlib import Path

import pytest
import torch
from kernel_references import paged_attention, rms_norm

from tinyvllm.cuda import load
from tinyvllm.ops.embedding import embedding_kernel
from tinyvllm.ops.rms_norm import rms_norm_kernel
from tinyvllm.ops.rope import cos_sin_table, inverse_frequencies, rope_kernel, rope_reference

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parent / "kernels"
DTYPES = {"bf16": torch.bfloat16, "half": torch.float16, "float": torch.float32}
# Two roundings to the type, relative to the largest value of the result.
TOLERANCE = {"bf16": 2**-7, "half": 2**-10, "float": 2e-6}


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def embedding(device, dtype):
    ids = torch.randint(500, (77,), generator=torch.Generator().manual_seed(1))
    weight = random(500, 576, dtype=dtype)
    return embedding_kernel(ids.to(device), weight.to(device)), weight[ids].double()


def norm(device, dtype):
    x, weight = random(64, 1024, dtype=dtype), random(1024, dtype=dtype, seed=1)
    out = rms_norm_kernel(x.to(device), weight.to(device), 1e-5)
    return out, rms_norm(x, weight, 1e-5)


def rope(device, dtype):
    q, k = random(33, 9, 64, dtype=dtype), random(33, 3, 64, dtype=dtype, seed=1)
    positions = torch.arange(33) * 7
    table = cos_sin_table(inverse_frequencies(64, 10000.0), 256)
    turned = rope_kernel(positions.to(device), q.to(device), k.to(device), table.to(device))
    expected = rope_reference(positions, q.double(), k.double(), table)
    return torch.cat([t.flatten() for t in turned]), torch.cat([t.flatten() for t in expected])


def gemm(device, dtype):
    a, b = random(250, 130), random(130, 190, seed=1)
    c = torch.full((250, 190), torch.nan, device=device)
    kernel = load(KERNELS / "gemm.cu", "gemm")
    kernel((12, 16), (16, 16), (a.to(device), b.to(device), c, 250, 190, 130))
    return c, a.double() @ b.double()


def attention(device, dtype):
    lengths = torch.tensor([0, 1, 17, 129], dtype=torch.int32)
    q, k, v = (
        random(*s, dtype=dtype, seed=i)
        for i, s in enumerate(((4, 4, 64), (36, 16, 1, 64), (36, 16, 1, 64)))
    )
    tables = torch.randperm(36, generator=torch.Generator().manual_seed(3)).view(4, 9).int()
    out = torch.full_like(q, torch.nan, device=device)
    kernel = load(
        KERNELS / "paged_attention.cu",
        "paged_attention",
        scalar_t=dtype,
        options=("-DHEAD_DIM=64",),
    )
    arrays = [t.to(device) for t in (q, k, v, tables, lengths)]
    kernel((4, 4), (128,), (out, *arrays, 1, 16, 9, 0.125), shared_mem=4 * 66 * 4)
    return out, paged_attention(q, k, v, tables, lengths, 0.125)


@pytest.fixture(autouse=True)
def needs_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here: run `make test-gpu` on a machine that has one")


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("kernel", [embedding, norm, rope, gemm, attention])
def test_the_gpu_and_the_emulator_agree(kernel, name):
    if kernel is gemm and name != "float":
        pytest.skip("this kernel is written for float")
    on_gpu, expected = kernel("cuda", DTYPES[name])
    emulated, _ = kernel("cpu", DTYPES[name])
    size = expected.abs().max().item()
    gpu, cpu = on_gpu.cpu().double(), emulated.double()
    errors = [(a - b).abs().max().item() / size for a, b in ((gpu, expected), (cpu, expected))]
    apart = (gpu - cpu).abs().max().item() / size
    equal = (gpu == cpu).double().mean().item()
    print(
        f"\n{kernel.__name__:10} {name:6} largest error: GPU {errors[0]:.1e}, emulator "
        f"{errors[1]:.1e}; apart {apart:.1e}, {equal:.2%} equal"
    )
    assert max(*errors, apart) <= TOLERANCE[name]
