"""Whole kernels against float64 references, at shapes that don't fit their tiles."""

from functools import cache
from pathlib import Path

import pytest
import torch
from kernel_references import paged_attention, rms_norm

from tinyvllm.cuda import Kernel, load

KERNELS = Path(__file__).parent / "kernels"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# One rounding to the type (half an ulp), and the float sums before it.
ROUNDING = {"bf16": 2**-8, "fp16": 2**-11, "fp32": 2**-20}


@cache
def kernel(file: str, scalar_t: str | None = None, head_dim: int = 64) -> Kernel:
    return load(
        KERNELS / f"{file}.cu", file, scalar_t=scalar_t, options=(f"-DHEAD_DIM={head_dim}",)
    )


@pytest.mark.parametrize("scalar_t", DTYPES)
@pytest.mark.parametrize("rows, hidden_size", [(1, 1), (3, 100), (64, 1024)])
def test_rms_norm(scalar_t, rows, hidden_size, device):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, hidden_size, generator=generator).to(DTYPES[scalar_t])
    weight = torch.randn(hidden_size, generator=generator).to(DTYPES[scalar_t])
    out = torch.full_like(x, torch.nan, device=device)
    kernel("rms_norm", scalar_t)(
        (rows,), (256,), (out, x.to(device), weight.to(device), hidden_size, 1e-6)
    )
    expected = rms_norm(x, weight, 1e-6)
    torch.testing.assert_close(
        out.cpu().double(), expected, rtol=1.01 * ROUNDING[scalar_t], atol=1e-6
    )


@pytest.mark.parametrize("m, n, k", [(16, 16, 16), (1, 1, 1), (50, 33, 70)])
def test_tiled_gemm(m, n, k, device):
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(m, k, generator=generator), torch.randn(k, n, generator=generator)
    c = torch.full((m, n), torch.nan, device=device)
    grid = (-(-n // 16), -(-m // 16))
    kernel("gemm")(grid, (16, 16), (a.to(device), b.to(device), c, m, n, k))
    torch.testing.assert_close(c.cpu().double(), a.double() @ b.double(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("scalar_t", DTYPES)
@pytest.mark.parametrize(
    "num_heads, num_kv_heads, block_size, head_dim",
    [(4, 1, 16, 64), (6, 6, 8, 64), (6, 2, 16, 128)],
)
def test_paged_attention(scalar_t, num_heads, num_kv_heads, block_size, head_dim, device):
    generator = torch.Generator().manual_seed(2)
    seq_lens = torch.tensor([0, 1, 7, 17, 33, 129], dtype=torch.int32)
    max_blocks = -(-int(seq_lens.max()) // block_size)
    num_blocks = max_blocks * len(seq_lens)

    def random(*shape):
        return torch.randn(shape, generator=generator).to(DTYPES[scalar_t])

    caches = [random(num_blocks, block_size, num_kv_heads, head_dim) for _ in range(2)]
    q = random(len(seq_lens), num_heads, head_dim)
    tables = torch.randperm(num_blocks, generator=generator).view(len(seq_lens), max_blocks).int()
    out = torch.full_like(q, torch.nan, device=device)
    arrays = [t.to(device) for t in (q, *caches, tables, seq_lens)]
    kernel("paged_attention", scalar_t, head_dim)(
        (num_heads, len(seq_lens)),
        (128,),
        (out, *arrays, num_kv_heads, block_size, max_blocks, head_dim**-0.5),
        shared_mem=4 * (head_dim + 2) * 4,
    )
    expected = paged_attention(q, *caches, tables, seq_lens, head_dim**-0.5)
    torch.testing.assert_close(
        out.cpu().double(), expected, rtol=1.1 * ROUNDING[scalar_t], atol=2e-5
    )
