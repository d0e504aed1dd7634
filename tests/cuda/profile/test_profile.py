"""What a profile says of each line, and how it is shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tinyvllm.cuda import KernelError, RawModule
from tinyvllm.cuda.profile_report import Counts, Report

CODE = """
__global__ void half(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = 0.0f;
  if (i % 2 == 0)
    v = x[i];
  else if (i % 4 == 1)
    v = x[i + 32];
  y[i] = v;
}

__global__ void alternate(const float* x, volatile float* y) {
  for (int k = 0; k < 6; k++)
    if ((k + threadIdx.x) % 2)
      y[k * 32 + threadIdx.x] = x[k * 32 + threadIdx.x];
}

__device__ __noinline__ float pick(const float* x, int i) {
  return x[i];
}

__global__ void calls(const float* x, float* y) {
  y[threadIdx.x] = pick(x, threadIdx.x);
  if (threadIdx.x < 8) y[threadIdx.x + 32] = pick(x, threadIdx.x + 32);
}

__global__ void choose(const int* x, int* y) {
  int v = x[threadIdx.x];
  switch (v) {
    case 0: y[threadIdx.x] = 10; break;
    case 1: y[threadIdx.x + 32] = 11; break;
    case 2: y[threadIdx.x + 64] = 12; break;
  }
}

__global__ void arithmetic(const float* x, float* y, int n) {
  float a = x[threadIdx.x], sum = 0.0f;
  for (int k = 0; k < n; k++)
    sum += a * sum;
  y[threadIdx.x] = sqrtf(sum) / a;
}

struct Triple { float a, b, c; };

__global__ void triples(const Triple* x, Triple* y) { y[threadIdx.x] = x[threadIdx.x]; }

__constant__ float table[32] = {1.0f};
__device__ float counter[32];

__global__ void variables(float* y) {
  y[threadIdx.x] = table[threadIdx.x] + counter[threadIdx.x];
}

__global__ void atomics(int* y) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  atomicAdd(&s, 1);
  __syncthreads();
  atomicAdd(&y[threadIdx.x], s);
}

__global__ void sync(int* y) {
  int v = threadIdx.x;
  for (int k = 1; k < 32; k *= 2)
    v += __shfl_xor_sync(0xFFFFFFFFu, v, k);
  __syncwarp();
  __syncthreads();
  y[threadIdx.x] = v;
}

__global__ void dynamic(const float* x, float* y) {
  extern __shared__ float s[];
  s[threadIdx.x * 2] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x * 2];
}

__global__ void local(const float* x, float* y, int n) {
  float kept[16];
  for (int k = 0; k < 16; k++) kept[k] = x[k * 32 + threadIdx.x];
  y[threadIdx.x] = kept[n];
}

__global__ void invariant(const float* x, float* y, int n) {
  float sum = 0.0f;
  for (int k = 0; k < n; k++) sum += x[32 + k] * x[0];
  y[threadIdx.x] = sum;
}

__global__ void choice(const float* x, float* y) {
  y[threadIdx.x] = threadIdx.x % 2 ? 1.0f : 2.0f;
}

__global__ void endless(volatile float* y) {
  for (int k = 0; k < 100000000; k++) y[0] = 1.0f;
}
"""
FIRST_LINE = 100


@pytest.fixture(scope="module")
def module() -> RawModule:
    return RawModule(CODE, filename="cell.cu", first_line=FIRST_LINE)


def line_of(text: str, after: str = "") -> int:
    """The number of the first line that holds a text, behind another text."""
    start = CODE.index(after)
    return FIRST_LINE + CODE.count("\n", 0, CODE.index(text, start))


def profile(module: RawModule, name: str, *args, block: int = 32, shared_mem: int = 0) -> Report:
    return module.get_function(name).profile((1,), (block,), args, shared_mem=shared_mem)


def floats(n: int = 1024) -> torch.Tensor:
    return torch.ones(n)


def test_a_profile_computes_what_a_launch_computes(module):
    x, y = torch.arange(64.0), torch.zeros(32)
    profile(module, "half", x, y)
    i = torch.arange(32)
    assert y.equal(torch.where(i % 2 == 0, x[:32], torch.where(i % 4 == 1, x[32:], 0.0)))


def test_each_line_has_its_own_counts_and_the_total_is_their_sum(module):
    report = profile(module, "half", floats(), floats())
    load, store = report.line(line_of("v = x[i];")), report.line(line_of("y[i] = v;"))
    # 16 floats in every other place of 128 bytes.
    assert (load.global_load.requests, load.global_load.threads) == (1, 16)
    assert (load.global_load.bytes_asked, load.global_load.bytes_moved) == (64, 128)
    assert load.global_load.efficiency == 0.5
    assert (store.global_store.requests, store.global_store.threads) == (1, 32)
    assert report.line(line_of("y[i] = v;")).global_load.requests == 0
    assert sum((x.counts for x in report.lines), Counts()) == report.total


def test_a_branch_that_lanes_take_both_ways_is_divergent_at_its_line(module):
    report = profile(module, "half", floats(), floats())
    first = report.line(line_of("if (i % 2 == 0)"))
    second = report.line(line_of("else if (i % 4 == 1)"))
    assert (first.branches, first.divergent_branches) == (1, 1)
    assert (second.branches, second.divergent_branches) == (1, 1)
    assert report.total.divergent_branches == 2


def test_a_branch_that_a_whole_warp_takes_is_not_divergent(module):
    report = profile(module, "arithmetic", floats(), floats(), 5)
    assert report.total.divergent_branches == 0
    assert report.total.branches >= 5


def test_a_choice_without_a_branch_does_not_diverge(module):
    assert profile(module, "choice", floats(), floats()).total.divergent_branches == 0


def test_iterations_of_a_loop_are_requests_of_their_own(module):
    report = profile(module, "alternate", floats(), floats())
    counts = report.line(line_of("y[k * 32 + threadIdx.x] ="))
    assert (counts.global_load.requests, counts.global_load.threads) == (6, 6 * 16)
    assert (counts.global_store.requests, counts.global_store.threads) == (6, 6 * 16)


def test_lanes_that_call_a_function_together_load_together(module):
    report = profile(module, "calls", floats(), floats())
    counts = report.line(line_of("return x[i];"))
    assert (counts.global_load.requests, counts.global_load.threads) == (2, 32 + 8)
    assert report.total.global_store.requests == 2


def test_a_switch_sends_its_cases_one_after_another(module):
    x = torch.arange(32, dtype=torch.int32) % 3
    report = profile(module, "choose", x, torch.zeros(96, dtype=torch.int32))
    assert (report.total.global_store.requests, report.total.global_store.threads) == (3, 32)
    assert report.total.divergent_branches >= 1


def test_additions_multiplications_divisions_and_roots_are_counted(module):
    report = profile(module, "arithmetic", floats(), floats(), 5)
    if report.total.flops is None:
        pytest.fail("no objdump here: it comes with binutils, as g++'s assembler does")
    assert report.line(line_of("sum += a * sum;")).flops == 32 * 5 * 2
    assert report.line(line_of("sqrtf(sum) / a")).flops == 32 * 2


def test_a_struct_moves_in_pieces_of_its_alignment(module):
    report = profile(module, "triples", floats(), floats())
    # Three requests, each for one float of every twelve bytes: all 384 bytes, 12 sectors.
    assert (report.total.global_load.requests, report.total.global_load.sectors) == (3, 36)
    assert report.total.global_load.bytes_asked == 384


def test_device_variables_are_global_memory_and_constants_are_not(module):
    report = profile(module, "variables", floats())
    assert report.total.global_load.requests == 1
    assert report.total.global_load.sectors == 4


def test_atomics_are_counted_apart_from_loads_and_stores(module):
    report = profile(module, "atomics", torch.zeros(64, dtype=torch.int32), block=64)
    assert report.total.global_atomic.requests == 2
    assert report.total.shared_atomic.requests == 2
    assert report.total.global_load.requests == report.total.global_store.requests == 0
    assert report.line(line_of("atomicAdd(&y")).global_atomic.sectors == 8


def test_barriers_are_counted_by_block_and_warp_functions_by_warp(module):
    report = profile(module, "sync", torch.zeros(64, dtype=torch.int32), block=64)
    assert report.line(line_of("v += __shfl_xor_sync")).warp_functions == 2 * 5
    assert report.line(line_of("__syncwarp();")).warp_functions == 2
    assert report.line(line_of("__syncthreads();", after="__syncwarp")).barriers == 1
    assert report.total.divergent_branches == 0


def test_dynamic_shared_memory_has_banks_too(module):
    report = profile(module, "dynamic", floats(), floats(), shared_mem=256)
    assert (report.total.shared_store.wavefronts, report.total.shared_store.bank_conflicts) == (
        2,
        1,
    )
    assert (report.total.shared_load.wavefronts, report.total.shared_load.bank_conflicts) == (2, 1)


def test_local_arrays_do_not_count(module):
    report = profile(module, "local", floats(), floats(), 3)
    assert (report.total.global_load.requests, report.total.global_store.requests) == (16, 1)


def test_what_does_not_change_in_a_loop_is_loaded_once(module):
    report = profile(module, "invariant", floats(), floats(), 10)
    assert report.total.global_load.requests == 10 + 1


def test_async_copies_are_a_global_load_and_a_shared_store():
    code = """
#include <device.cuh>
__global__ void stage(const float4* x, float4* y) {
  __shared__ float4 s[32];
  copy_async(&s[threadIdx.x], &x[threadIdx.x]);
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  y[threadIdx.x] = s[31 - threadIdx.x];
}"""
    report = RawModule(code).get_function("stage").profile((1,), (32,), (floats(), floats()))
    copy = report.line(5)
    assert (copy.global_load.requests, copy.global_load.sectors) == (1, 16)
    assert (copy.shared_store.requests, copy.shared_store.wavefronts) == (1, 4)


def test_a_numpy_array_counts_from_where_its_allocation_begins(module):
    base = np.ones(2048, np.float32)
    for offset in range(0, 16, 4):  # numpy's memory is aligned to 16 bytes only
        array, out = base[offset : offset + 1024], np.ones(1024, np.float32)
        report = profile(module, "calls", array, out)
        expected = 4 + 1 if offset % 8 == 0 else 5 + 2  # 32 floats, then 8
        assert report.line(line_of("return x[i];")).global_load.sectors == expected
        assert report.total.global_store.sectors == 4 + 1


def test_a_fault_is_the_same_error_as_in_a_launch(module):
    expected = r"choice: block \(0,0,0\) thread \(0,0,0\): .*null pointer"
    with pytest.raises(KernelError, match=expected) as error:
        profile(module, "choice", floats(), None)
    assert error.value.line == line_of("y[threadIdx.x] = threadIdx.x % 2")


def test_what_no_trace_can_hold_is_refused_in_words(module, monkeypatch):
    monkeypatch.setattr("tinyvllm.cuda.profile.MAX_EVENTS", 1 << 16)
    with pytest.raises(KernelError, match="profile a smaller problem"):
        profile(module, "endless", floats())


def test_the_traces_of_one_warp_give_way_to_those_of_the_next(module, monkeypatch):
    monkeypatch.setattr("tinyvllm.cuda.profile.MAX_EVENTS", 1 << 23)
    x = floats(41_000)
    report = profile(module, "invariant", x, floats(), 40_000, block=256)  # 4 million events a warp
    assert report.total.global_load.requests == 8 * (40_000 + 1)


def test_a_report_prints_as_a_table_beside_the_source(module):
    text = str(profile(module, "half", floats(), floats()))
    lines = text.splitlines()
    assert lines[0] == "half: 1 blocks of 32 threads"
    row = next(line for line in lines if line.endswith("v = x[i];"))
    assert row.split()[:6] == ["1", "4", "64", "128", "50%", str(line_of("v = x[i];"))]
    assert any(line.endswith("if (i % 2 == 0)") and "1 of 1" in line for line in lines)
    assert lines[-1].endswith("total")
    assert "conflicts" not in text  # a column that is empty throughout


def test_a_table_leaves_out_long_stretches_in_which_nothing_happens():
    quiet = "\n".join(f"// {i}" for i in range(20))
    code = f"__global__ void f(float* y) {{\n{quiet}\n  y[threadIdx.x] = 1.0f;\n}}\n"
    report = RawModule(code).get_function("f").profile((1,), (32,), (floats(),))
    shown = [line.split("  ")[-1].strip() for line in str(report).splitlines()[3:-1]]
    assert shown == [
        *("__global__ void f(float* y) {", "// 0", "// 1", "// 2", "..."),
        *("// 17", "// 18", "// 19", "y[threadIdx.x] = 1.0f;"),
    ]


def test_a_notebook_shows_a_table_and_escapes_the_source():
    code = (
        "__global__ void f(float* y, int n) {\n  if (threadIdx.x < n) y[threadIdx.x] = 1.0f;\n}\n"
    )
    report = RawModule(code).get_function("f").profile((1,), (32,), (floats(), 7))
    shown = report._repr_html_()
    assert "if (threadIdx.x &lt; n) y[threadIdx.x] = 1.0f;" in shown
    assert shown.count("<table") == shown.count("</table>") == 1
    assert "rgba(" in shown  # the divergent branch is marked


def test_strided_access_is_marked_and_a_broadcast_is_not(module):
    code = """__global__ void f(const float* x, float* y, int stride) {
  y[threadIdx.x] = x[threadIdx.x * stride];
}"""
    kernel = RawModule(code).get_function("f")
    marked = {}
    for stride in (0, 1, 8):
        report = kernel.profile((1,), (32,), (floats(), floats(), stride))
        marked[stride] = "rgba(" in report._repr_html_()
    assert marked == {0: False, 1: False, 8: True}


def test_two_profiles_of_one_kernel_do_not_add_up(module):
    x, y = floats(), floats()
    assert profile(module, "half", x, y) == profile(module, "half", x, y)
