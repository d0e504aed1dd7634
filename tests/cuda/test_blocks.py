"""Threads, blocks, shared memory, vector types and what else a kernel is made of."""

from functools import cache

import pytest
import torch

from tinyvllm.cuda import KernelError, RawModule

TEXT = r"""
#include <stdint.h>
__global__ void who(int* out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int threads = blockDim.x * blockDim.y * blockDim.z;
  int* mine = out + (block * threads + thread) * 6;
  mine[0] = blockIdx.x; mine[1] = blockIdx.y; mine[2] = blockIdx.z;
  mine[3] = threadIdx.x; mine[4] = threadIdx.y; mine[5] = threadIdx.z;
}
__global__ void vote(int* out) {
  int i = threadIdx.x;
  int count = __syncthreads_count(i % 3 == 0), any = __syncthreads_or(i == 99), none =
  __syncthreads_or(i > 99);
  int all = __syncthreads_and(i < 100), not_all = __syncthreads_and(i != 50);
  out[i] = count * 10000 + any * 1000 + none * 100 + all * 10 + not_all;
}
__global__ void reverse(int* x) {
  extern __shared__ int s[];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
template <class T, int N> __global__ void reverse_template(T* x) {
  extern __shared__ __align__(16) unsigned char raw[];
  T* s = reinterpret_cast<T*>(raw);
  __shared__ T fixed[N];
  s[threadIdx.x] = fixed[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = (s[N - 1 - threadIdx.x] + fixed[N - 1 - threadIdx.x]) / 2;
}
__global__ void separate_blocks(int* out) {
  __shared__ int mine;
  if (threadIdx.x == 0) mine = blockIdx.x;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = mine;
}
__global__ void return_before_barrier(int* out) {
  __shared__ int s[64];
  if (threadIdx.x >= 40) return;
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[39 - threadIdx.x];
}
__constant__ float weights[4] = {1, 10, 100, 1000};
__device__ int calls = 0;
__global__ void globals(float* out, int* n) {
  out[threadIdx.x] = weights[threadIdx.x];
  if (threadIdx.x == 0) *n = ++calls;
}
__global__ void vectors(const float4* x, float4* out, const int2* y, int2* out2) {
  float4 v = x[threadIdx.x];
  out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
  int2 w = __ldg(y + threadIdx.x);
  out2[threadIdx.x] = make_int2(w.y, w.x);
  static_assert(sizeof(float3) == 12 && alignof(float4) == 16 && alignof(int2) == 8 &&
  sizeof(uchar4) == 4, "");
}
__global__ void cached(const float* x, float* out) {
  int i = threadIdx.x;
  __stcs(out + i, __ldg(x + i) + __ldcs(x + i) + __ldcg(x + i));
}
__device__ __noinline__ int deeper(int n) { return n <= 1 ? 1 : n * deeper(n - 1); }
__global__ void __launch_bounds__(64) recursion(int* out) { out[threadIdx.x] = deeper(threadIdx.x %
10); }
__global__ void sizes(int64_t* out, int8_t a, uint16_t b, long long c, double d, bool e) {
  out[0] = a; out[1] = b; out[2] = c; out[3] = (int64_t)(d * 8); out[4] = e;
}
__global__ void hello(int n) {
  if (threadIdx.x < n) printf("thread %d says %s %.2f\n", (int)threadIdx.x, "hi", 0.5f *
  threadIdx.x);
}
__global__ void asserts(int n) { assert(threadIdx.x < n); }
"""


@cache
def module() -> RawModule:
    return RawModule(
        TEXT, name_expressions=["reverse_template<float, 64>", "reverse_template<long long, 32>"]
    )


def run(name, grid, block, args, **kwargs):
    module().get_function(name)(grid, block, args, **kwargs)


@pytest.mark.parametrize(
    "grid, block", [((3,), (7,)), ((2, 3), (4, 2)), ((2, 1, 3), (2, 3, 4)), (5, 33)]
)
def test_each_thread_of_each_block_runs_once_and_knows_its_place(grid, block, device):
    g, b = ((*(v if isinstance(v, tuple) else (v,)), 1, 1)[:3] for v in (grid, block))
    n = g[0] * g[1] * g[2] * b[0] * b[1] * b[2]
    out = torch.full((n, 6), -1, dtype=torch.int32, device=device)
    run("who", grid, block, (out,))
    expected = [
        [gx, gy, gz, x, y, z]
        for gz in range(g[2])
        for gy in range(g[1])
        for gx in range(g[0])
        for z in range(b[2])
        for y in range(b[1])
        for x in range(b[0])
    ]
    assert out.tolist() == expected


def test_barriers_that_count_and_vote(device):
    out = torch.zeros(100, dtype=torch.int32, device=device)
    run("vote", 1, 100, (out,))
    assert out.tolist() == [34 * 10000 + 1000 + 0 + 10 + 0] * 100


def test_dynamic_shared_memory(device):
    x = torch.arange(1000, dtype=torch.int32, device=device)
    run("reverse", 1, 1000, (x,), shared_mem=4000)
    assert x.tolist() == list(range(999, -1, -1))


@pytest.mark.parametrize(
    "name, dtype, n", [("float, 64", torch.float32, 64), ("long long, 32", torch.int64, 32)]
)
def test_shared_memory_in_a_template(name, dtype, n, device):
    x = torch.arange(n, dtype=dtype, device=device)
    run(f"reverse_template<{name}>", 1, n, (x,), shared_mem=8 * n)
    assert x.tolist() == list(range(n - 1, -1, -1))


def test_every_block_has_shared_memory_of_its_own(device):
    out = torch.zeros(64 * 32, dtype=torch.int32, device=device)
    run("separate_blocks", 64, 32, (out,))
    assert out.tolist() == [i // 32 for i in range(64 * 32)]


def test_threads_that_returned_are_not_waited_for(device):
    out = torch.zeros(40, dtype=torch.int32, device=device)
    run("return_before_barrier", 1, 64, (out,))
    assert out.tolist() == list(range(39, -1, -1))


def test_constant_and_global_variables(device):
    out, n = torch.zeros(4, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    run("globals", 1, 4, (out, n))
    first = n.item()
    run("globals", 1, 4, (out, n))
    assert out.tolist() == [1, 10, 100, 1000] and n.item() == first + 1


def test_vector_types(device):
    x = torch.arange(32.0, device=device)
    y = torch.arange(16, dtype=torch.int32, device=device)
    out, out2 = torch.zeros_like(x), torch.zeros_like(y)
    run("vectors", 1, 8, (x, out, y, out2))
    assert torch.equal(out.cpu().view(8, 4), x.cpu().view(8, 4).flip(1))
    assert torch.equal(out2.cpu().view(8, 2), y.cpu().view(8, 2).flip(1))


def test_cached_loads_and_stores(device):
    x, out = torch.randn(32, device=device), torch.zeros(32, device=device)
    run("cached", 1, 32, (x, out))
    assert torch.equal(out, x + x + x)


def test_device_functions_may_recurse(device):
    out = torch.zeros(64, dtype=torch.int32, device=device)
    run("recursion", 1, 64, (out,))
    factorials = [1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880]
    assert out.tolist() == [factorials[i % 10] for i in range(64)]


def test_numbers_arrive_in_the_parameters_own_type(device):
    out = torch.zeros(5, dtype=torch.int64, device=device)
    run("sizes", 1, 1, (out, -7, 65535, 2**62, 1.125, True))
    assert out.tolist() == [-7, 65535, 2**62, 9, 1]


def test_printf_appears_in_pythons_output(capsys):
    run("hello", 1, 3, (3,)) if not torch.cuda.is_available() else emulated("hello", 1, 3, (3,))
    assert capsys.readouterr().out == (
        "thread 0 says hi 0.00\nthread 1 says hi 0.50\nthread 2 says hi 1.00\n"
    )


def emulated(name, grid, block, args):
    from tinyvllm.cuda.emulator import FAST

    module().get_function(name).run(grid, block, args, 0, FAST)


def test_a_failed_assertion_names_its_condition_thread_and_line():
    with pytest.raises(
        KernelError, match=r"thread \(2,0,0\): assertion failed: threadIdx.x < n"
    ) as caught:
        emulated("asserts", 1, 5, (2,))
    line = next(i for i, text in enumerate(TEXT.split("\n"), 1) if "void asserts" in text)
    assert (caught.value.kind, caught.value.line) == ("assert", line)


def test_blocks_spread_over_several_workers_give_the_same(monkeypatch):
    monkeypatch.setenv("TINYVLLM_EMULATOR_WORKERS", "5")
    out = torch.zeros(64 * 32, dtype=torch.int32)
    run("separate_blocks", 64, 32, (out,))
    assert out.tolist() == [i // 32 for i in range(64 * 32)]


def test_shared_memory_holds_nan_before_it_is_written():
    text = (
        "__global__ void f(float* out) { __shared__ float s[4]; extern __shared__ float d[];\n"
        "out[2 * blockIdx.x] = s[threadIdx.x]; out[2 * blockIdx.x + 1] = d[threadIdx.x]; s[0] = "
        "d[0] = 1; }"
    )
    out = torch.zeros(20)
    RawModule(text).get_function("f")(10, 1, (out,), shared_mem=16)
    assert out.isnan().all()


def test_a_block_of_one_thread_passes_its_barriers_once():
    text = (
        "__global__ void f(int* x) {\n"
        "  atomicAdd(x, 1); __syncthreads(); __syncthreads(); atomicAdd(x, 10);\n}"
    )
    x = torch.zeros(1, dtype=torch.int32)
    RawModule(text).get_function("f")(3, 1, (x,))
    assert x.item() == 33
