"""device.cuh: PTX on a GPU, C++ in the emulator, the same results."""

from functools import cache
from pathlib import Path

import pytest
import torch

from tinyvllm.cuda import KernelError, RawModule

TYPES = {"__nv_bfloat16": torch.bfloat16, "__half": torch.float16}
STREAMED = {"float": torch.float32, "uint2": torch.float32, "float4": torch.float32}


@cache
def module() -> RawModule:
    names = [f"{k}<{t}>" for k in ("mma_tile", "mma_from_shared") for t in TYPES]
    names += [f"stream<{t}>" for t in STREAMED]
    path = Path(__file__).parent / "kernels" / "device_functions.cu"
    return RawModule(path=path, name_expressions=names)


def matrices(dtype: torch.dtype, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(
        torch.randn(shape, generator=generator).to(dtype).to(device)
        for shape in ((16, 16), (16, 8))
    )


@pytest.mark.parametrize("type_", TYPES)
def test_mma_multiplies_and_adds(type_, device):
    a, b = matrices(TYPES[type_], device)
    c = torch.arange(128.0, device=device).view(16, 8)
    expected = a.cpu().double() @ b.cpu().double() + c.cpu().double()
    module().get_function(f"mma_tile<{type_}>")(1, 32, (c, a, b))
    torch.testing.assert_close(c.cpu().double(), expected, rtol=0, atol=4e-5)


@pytest.mark.parametrize("type_", TYPES)
def test_ldmatrix_brings_what_mma_needs(type_, device):
    a, b = matrices(TYPES[type_], device)
    c = torch.zeros(16, 8, device=device)
    module().get_function(f"mma_from_shared<{type_}>")(1, 32, (c, a, b))
    torch.testing.assert_close(
        c.cpu().double(), a.cpu().double() @ b.cpu().double(), rtol=0, atol=1e-5
    )


def test_mma_adds_up_numbers_that_are_exact_in_its_types(device):
    a = torch.arange(256).view(16, 16).remainder(17).bfloat16()
    b = torch.arange(128).view(16, 8).remainder(13).sub(6).bfloat16()
    c = torch.zeros(16, 8, device=device)
    module().get_function("mma_tile<__nv_bfloat16>")(1, 32, (c, a.to(device), b.to(device)))
    assert torch.equal(c.cpu(), a.float() @ b.float())


@pytest.mark.parametrize("n, tiles", [(128, 1), (512, 4), (500, 4), (388, 4)])
def test_async_copies_arrive_in_order_and_zero_what_is_not_valid(n, tiles, device):
    x = torch.arange(512.0, device=device)
    out = torch.zeros(32, device=device)
    module().get_function("copy_pipeline")(1, 32, (out, x, n, tiles))
    valid = x.cpu().clone()[: tiles * 128]
    valid[n:] = 0
    assert out.cpu().tolist() == valid.view(-1, 32).sum(0).tolist()


def test_a_copy_that_is_not_waited_for_has_not_arrived():
    out = torch.zeros(32)
    module().get_function("copy_without_wait")(1, 32, (out, torch.ones(128)))
    assert out.isnan().all()


@pytest.mark.parametrize("type_", STREAMED)
def test_streaming_loads_and_stores_move_all_bits(type_, device):
    x = torch.randn(256, device=device)
    out = torch.zeros_like(x)
    lanes = {"float": 1, "uint2": 2, "float4": 4}[type_]
    module().get_function(f"stream<{type_}>")(4, 64, (out, x, 256 // lanes))
    assert torch.equal(out, x)


def test_a_warp_that_is_not_whole_cannot_multiply():
    a, b = matrices(torch.bfloat16, "cpu")
    with pytest.raises(
        KernelError, match="mma_m16n8k16 needs all 32 lanes of the warp; this warp has 16"
    ):
        module().get_function("mma_tile<__nv_bfloat16>")(1, 16, (torch.zeros(16, 8), a, b))
