"""The launches in which profile mode is held to Nsight Compute, and what theory says of each.

One list for the emulator, for the GPU (ncu_fixture.py) and for the tests. Nearly all are 32 warps:
4 blocks of 256 threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from tinyvllm.cuda import Kernel, RawModule
from tinyvllm.cuda.profile_report import Report

KERNELS = Path(__file__).with_name("access_patterns.cu")
TEMPLATES = ["gemm<16>", "gemm<32>", "rms_norm<float>", "rms_norm<__nv_bfloat16>"]

# Our name -> ncu's. All of these must be equal.
METRICS = {
    "global load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared load bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared store bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}
# For the reader: ncu counts an instruction also where its predicate is false in all lanes, and
# short branches (of the tree sums) become predicates.
FURTHER_METRICS = {
    "shared load requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared store requests": "smsp__inst_executed_op_shared_st.sum",
}


@dataclass(frozen=True)
class Launch:
    """One launch. `theory`: the first six of METRICS, derived by hand (see the comments)."""

    name: str
    kernel: str
    arguments: tuple
    theory: tuple[int, int, int, int, int, int]
    grid: tuple[int, ...] = (4,)
    block: tuple[int, ...] = (256,)

    def values(self, device: str) -> tuple:
        """The arguments on a device."""
        return tuple(a(device) if callable(a) else a for a in self.arguments)

    def run(self, device: str) -> None:
        function(self.kernel)(self.grid, self.block, self.values(device))

    def profile(self) -> Report:
        return function(self.kernel).profile(self.grid, self.block, self.values("cpu"))


@cache
def _module() -> RawModule:
    return RawModule(path=KERNELS, name_expressions=TEMPLATES)


def function(name: str) -> Kernel:
    return _module().get_function(name)


def counts(report: Report) -> dict[str, int]:
    """A report in the names of METRICS and FURTHER_METRICS."""
    t = report.total
    return {
        "global load requests": t.global_load.requests,
        "global load sectors": t.global_load.sectors,
        "global store requests": t.global_store.requests,
        "global store sectors": t.global_store.sectors,
        "shared load wavefronts": t.shared_load.wavefronts,
        "shared store wavefronts": t.shared_store.wavefronts,
        "shared load bank conflicts": t.shared_load.bank_conflicts,
        "shared store bank conflicts": t.shared_store.bank_conflicts,
        "shared load requests": t.shared_load.requests,
        "shared store requests": t.shared_store.requests,
    }


def array(
    n: int, dtype: torch.dtype = torch.float32, offset: int = 0
) -> Callable[[str], torch.Tensor]:
    """An array of n elements that begins `offset` elements into its allocation."""
    return lambda device: torch.ones(offset + n, dtype=dtype, device=device)[offset:]


_INDEX = torch.randperm(8192, generator=torch.Generator().manual_seed(0))[:1024].int()


def index(device: str) -> torch.Tensor:
    return _INDEX.to(device)


def _gathered_sectors() -> int:
    """Distinct groups of eight floats among the 32 elements of each warp."""
    return sum(len(set((warp // 8).tolist())) for warp in _INDEX.view(32, 32))


N = 1024  # threads of most launches
FLOATS, BF16, BYTES = array(N), array(N, torch.bfloat16), array(N, torch.uint8)
FLOATS2, FLOATS4 = array(2 * N), array(4 * N)
MATRIX = array(64 * 64)


def _strided(kernel: str, stride: int, theory: tuple) -> Launch:
    return Launch(
        f"{kernel}, stride {stride}", kernel, (array(N * 33), array(N * 33), stride), theory
    )


def _strided4(kernel: str, stride: int, theory: tuple) -> Launch:
    arrays = array(N * 4 * stride), array(N * 4)
    return Launch(f"{kernel}, stride {stride}", kernel, (*arrays, stride), theory)


def _transpose(kernel: str, theory: tuple) -> Launch:
    return Launch(kernel, kernel, (MATRIX, MATRIX, 64), theory, (2, 2), (32, 8))


LAUNCHES = [
    # Global memory. 32 floats are 128 bytes: 4 sectors a request.
    Launch("copy", "copy_floats", (FLOATS, FLOATS), (32, 128, 32, 128, 0, 0)),
    # One element further, a warp's 128 bytes lie in 5 sectors.
    Launch(
        "copy, load misaligned",
        "copy_floats",
        (array(N, offset=1), FLOATS),
        (32, 160, 32, 128, 0, 0),
    ),
    Launch(
        "copy, store misaligned",
        "copy_floats",
        (FLOATS, array(N, offset=1)),
        (32, 128, 32, 160, 0, 0),
    ),
    Launch(
        "copy, both by 8 elements",
        "copy_floats",
        (array(N, offset=8),) * 2,
        (32, 128, 32, 128, 0, 0),
    ),
    _strided("load_strided", 2, (32, 256, 32, 128, 0, 0)),
    _strided("load_strided", 3, (32, 384, 32, 128, 0, 0)),
    _strided("load_strided", 32, (32, 1024, 32, 128, 0, 0)),
    _strided("store_strided", 2, (32, 128, 32, 256, 0, 0)),
    _strided("store_strided", 32, (32, 128, 32, 1024, 0, 0)),
    Launch("copy_float2", "copy_float2", (FLOATS2, FLOATS2), (32, 256, 32, 256, 0, 0)),
    Launch("copy_float4", "copy_float4", (FLOATS4, FLOATS4), (32, 512, 32, 512, 0, 0)),
    # 512 bytes, 16 further: 17 sectors.
    Launch(
        "copy_float4, misaligned",
        "copy_float4",
        (array(4 * N, offset=4), FLOATS4),
        (32, 544, 32, 512, 0, 0),
    ),
    _strided4("load_float4_strided", 2, (32, 1024, 32, 512, 0, 0)),  # a sector for each lane
    _strided4("load_float4_strided", 8, (32, 1024, 32, 512, 0, 0)),
    Launch("copy_bytes", "copy_bytes", (BYTES, BYTES), (32, 32, 32, 32, 0, 0)),
    Launch("copy_bf16", "copy_bf16", (BF16, BF16), (32, 64, 32, 64, 0, 0)),
    Launch("copy_eight_bf16", "copy_eight_bf16", (FLOATS4, FLOATS4), (32, 512, 32, 512, 0, 0)),
    Launch(
        "load_broadcast, 32 lanes", "load_broadcast", (FLOATS, FLOATS, 32), (32, 32, 32, 128, 0, 0)
    ),
    Launch(
        "load_broadcast, 2 lanes", "load_broadcast", (FLOATS, FLOATS, 2), (32, 64, 32, 128, 0, 0)
    ),
    Launch(
        "load_float4_broadcast, 32 lanes",
        "load_float4_broadcast",
        (FLOATS4, FLOATS4, 32),
        (32, 32, 32, 512, 0, 0),
    ),
    # Two lanes share 16 bytes: 256 bytes a warp.
    Launch(
        "load_float4_broadcast, 2 lanes",
        "load_float4_broadcast",
        (FLOATS4, FLOATS4, 2),
        (32, 256, 32, 512, 0, 0),
    ),
    Launch(
        "gather",
        "gather",
        (array(8192), index, FLOATS),
        (64, 128 + _gathered_sectors(), 32, 128, 0, 0),
    ),
    # 31 warps, and 9 lanes of one: 2 sectors.
    Launch("copy_ragged", "copy_ragged", (FLOATS, FLOATS, 1001), (32, 126, 32, 126, 0, 0)),
    Launch("copy_every_other", "copy_every_other", (FLOATS, FLOATS), (32, 128, 32, 128, 0, 0)),
    # Request k of a warp has lanes k to 31: 8 (4 + 3 + 2 + 1) sectors a warp.
    Launch(
        "copy_triangle",
        "copy_triangle",
        (array(32 * N), array(32 * N)),
        (1024, 2560, 1024, 2560, 0, 0),
    ),
    # Two loads of one float in every 16 bytes: 16 sectors each.
    Launch("array_of_structs", "array_of_structs", (FLOATS4, FLOATS), (64, 1024, 32, 128, 0, 0)),
    Launch(
        "struct_of_arrays", "struct_of_arrays", (FLOATS, FLOATS, FLOATS), (64, 256, 32, 128, 0, 0)
    ),
    # Shared memory: 32 loads, each in as many wavefronts as lanes meet in one bank.
    _strided("read_shared", 1, (32, 128, 32, 128, 32, 32)),
    _strided("read_shared", 2, (64, 256, 32, 128, 64, 64)),
    _strided("read_shared", 8, (256, 1024, 32, 128, 256, 256)),
    _strided("read_shared", 32, (1024, 4096, 32, 128, 1024, 1024)),
    _strided("read_shared", 33, (1056, 4224, 32, 128, 32, 1056)),
    _strided("write_shared", 1, (32, 128, 32, 128, 32, 32)),
    _strided("write_shared", 2, (32, 128, 32, 128, 64, 64)),
    _strided("write_shared", 32, (32, 128, 32, 128, 1024, 1024)),
    _strided("write_shared", 33, (32, 128, 32, 128, 32, 32)),
    Launch(
        "read_shared_broadcast, 32",
        "read_shared_broadcast",
        (FLOATS, FLOATS, 32),
        (32, 128, 32, 128, 32, 32),
    ),
    Launch(
        "read_shared_broadcast, 2",
        "read_shared_broadcast",
        (FLOATS, FLOATS, 2),
        (32, 128, 32, 128, 32, 32),
    ),
    # Two lanes of 2 bytes read one word; at stride 4 lanes are 2 words apart.
    Launch(
        "read_shared_bf16, stride 1", "read_shared_bf16", (BF16, BF16, 1), (32, 64, 32, 64, 32, 32)
    ),
    Launch(
        "read_shared_bf16, stride 4",
        "read_shared_bf16",
        (array(4 * N, torch.bfloat16), BF16, 4),
        (128, 256, 32, 64, 64, 128),
    ),
    # 8 bytes: a half warp fills the banks; 16 bytes: a quarter does.
    Launch(
        "read_shared_float2, stride 1",
        "read_shared_float2",
        (FLOATS2, FLOATS2, 1),
        (32, 256, 32, 256, 64, 64),
    ),
    Launch(
        "read_shared_float2, stride 2",
        "read_shared_float2",
        (FLOATS4, FLOATS2, 2),
        (64, 512, 32, 256, 128, 128),
    ),
    _strided4("read_shared_float4", 1, (32, 512, 32, 512, 128, 128)),
    _strided4("read_shared_float4", 2, (64, 1024, 32, 512, 256, 256)),
    _strided4("read_shared_float4", 4, (128, 2048, 32, 512, 512, 512)),
    # Neighbours that read the same go together: two quarters in one wavefront.
    Launch(
        "read_shared_float4_broadcast, 32",
        "read_shared_float4_broadcast",
        (FLOATS4, FLOATS4, 32),
        (32, 512, 32, 512, 64, 128),
    ),
    Launch(
        "read_shared_float4_broadcast, 2",
        "read_shared_float4_broadcast",
        (FLOATS4, FLOATS4, 2),
        (32, 512, 32, 512, 64, 128),
    ),
    # 4 blocks of 8 warps, 4 rows each. A column of the matrix is 32 sectors, of the tile one bank.
    _transpose("transpose_naive", (128, 512, 128, 4096, 0, 0)),
    _transpose("transpose_shared", (128, 512, 128, 512, 4096, 128)),
    _transpose("transpose_padded", (128, 512, 128, 512, 128, 128)),
    # Warps at work in the 8 steps: 8, 8, 8, 8, 8, 4, 2, 1 = 47; two loads and a store each, and
    # s[0] at the end.
    Launch("sum_modulo", "sum_modulo", (FLOATS, FLOATS), (32, 128, 4, 4, 4 * 95, 4 * 55)),
    # Warps times conflicts: 4 x 2, 2 x 4, 8, 8, 8, 4, 2, 1 = 47.
    Launch("sum_interleaved", "sum_interleaved", (FLOATS, FLOATS), (32, 128, 4, 4, 4 * 95, 4 * 55)),
    # 4, 2, 1, 1, 1, 1, 1, 1 = 12.
    Launch("sum_sequential", "sum_sequential", (FLOATS, FLOATS), (32, 128, 4, 4, 4 * 25, 4 * 20)),
    Launch("sum_shuffle", "sum_shuffle", (FLOATS, FLOATS), (32, 128, 4, 4, 4 * 1, 4 * 8)),
    # blocks x warps x tiles: 4 x 8 x 2 = 64 times two loads and stores, and 16 times two loads of
    # shared memory.
    Launch(
        "gemm, 16 x 16",
        "gemm<16>",
        (MATRIX, MATRIX, MATRIX, 32, 32),
        (128, 512, 32, 128, 2048, 128),
        (2, 2),
        (16, 16),
    ),
    # 4 x 32 x 2 = 256 times.
    Launch(
        "gemm, 32 x 32",
        "gemm<32>",
        (MATRIX, MATRIX, MATRIX, 64, 64),
        (512, 2048, 128, 512, 16384, 512),
        (2, 2),
        (32, 32),
    ),
    # A row of 1000 floats: 32 requests, 125 sectors; three are loaded, one is stored.
    Launch(
        "rms_norm, float",
        "rms_norm<float>",
        (array(4000), array(4000), array(1000), 1000, 1e-5),
        (384, 1500, 128, 500, 32, 32),
    ),
    # A row of 1024: 32 requests of 2 sectors.
    Launch(
        "rms_norm, bf16",
        "rms_norm<__nv_bfloat16>",
        (*[array(4096, torch.bfloat16)] * 3, 1024, 1e-5),
        (384, 768, 128, 256, 32, 32),
    ),
]
