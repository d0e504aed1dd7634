"""Atomic functions: the sum is right whatever the order, and the old value comes back (guide,
"Atomic Functions")."""

from functools import cache

import pytest
import torch

from tinyvllm.cuda import RawModule

TEXT = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T> __global__ void add(T* total) { atomicAdd(total, T(1)); }
template <class T> __global__ void add_pairs(T* total) {
  T one;
  one.x = 1.0f;
  one.y = 2.0f;
  atomicAdd(total, one);
}
#define FOLD(name, T, call)                                       \\
  __global__ void name(T* p, T* old) {                            \\
    T i = (T)(blockIdx.x * blockDim.x + threadIdx.x);             \\
    old[blockIdx.x * blockDim.x + threadIdx.x] = call;            \\
  }
FOLD(sub, int, atomicSub(p, i))
FOLD(min_int, int, atomicMin(p, i - 50))
FOLD(max_int, int, atomicMax(p, i - 50))
FOLD(min_long, long long, atomicMin(p, i - 50))
FOLD(and_, unsigned, atomicAnd(p, ~(1u << i % 32)))
FOLD(or_, unsigned, atomicOr(p, 1u << i % 7))
FOLD(xor_, unsigned, atomicXor(p, i))
FOLD(inc, unsigned, ((void)i, atomicInc(p, 9u)))
FOLD(dec, unsigned, ((void)i, atomicDec(p, 9u)))
FOLD(exch, int, atomicExch(p, i))
FOLD(cas, int, atomicCAS(p, i, i + 1))
__global__ void shared_histogram(const int* x, int* bins, int n) {
  __shared__ int mine[8];
  if (threadIdx.x < 8) mine[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&mine[x[i]], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
// The last block to finish adds up what the others left.
__global__ void last_block(const float* x, float* partial, float* total, unsigned* done) {
  __shared__ float sum;
  __shared__ bool last;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float t = 0;
    for (int b = 0; b < gridDim.x; b++) t += partial[b];
    *total = t;
  }
}
// A thread waits for another one's flag: the emulator must let the other run.
__global__ void wait_for_flag(int* flag, int* out) {
  if (threadIdx.x == 0) {
    while (atomicAdd(flag, 0) == 0) {
    }
    out[0] = 7;
  } else if (threadIdx.x == 32) {
    atomicExch(flag, 1);
  }
}
"""
TYPES = {
    "int": torch.int32,
    "unsigned": torch.int32,
    "unsigned long long": torch.int64,
    "float": torch.float32,
    "double": torch.float64,
    "__half": torch.float16,
    "__nv_bfloat16": torch.bfloat16,
}
FOLDS = (
    "sub",
    "min_int",
    "max_int",
    "min_long",
    "and_",
    "or_",
    "xor_",
    "inc",
    "dec",
    "exch",
    "cas",
)


@cache
def module() -> RawModule:
    names = [f"add<{t}>" for t in TYPES] + [
        "add_pairs<__half2>",
        "add_pairs<__nv_bfloat162>",
        *FOLDS,
    ]
    return RawModule(TEXT, name_expressions=names)


def run(name, grid, block, args):
    module().get_function(name)(grid, block, args)


@pytest.mark.parametrize("type_", TYPES)
def test_no_addition_is_lost(type_, device):
    total = torch.zeros(1, dtype=TYPES[type_], device=device)
    run(f"add<{type_}>", 4, 50, (total,))
    assert total.item() == 200


@pytest.mark.parametrize("type_", ["__half2", "__nv_bfloat162"])
def test_pairs_are_added_element_by_element(type_, device):
    total = torch.zeros(
        2, dtype=torch.float16 if type_ == "__half2" else torch.bfloat16, device=device
    )
    run(f"add_pairs<{type_}>", 2, 32, (total,))
    assert total.tolist() == [64.0, 128.0]


def fold(name, start, device, dtype=torch.int32, n=100):
    p = torch.tensor([start], dtype=dtype, device=device)
    old = torch.zeros(n, dtype=dtype, device=device)
    run(name, n // 50, 50, (p, old))
    return p.item(), old.tolist()


def test_sub_subtracts_and_gives_the_old_value(device):
    last, old = fold("sub", 10_000, device)
    assert last == 10_000 - sum(range(100))
    assert len(set(old)) >= 99 and 10_000 in old  # thread 0 subtracts 0


def test_min_and_max_keep_the_extreme(device):
    assert fold("min_int", 3, device)[0] == -50
    assert fold("max_int", 3, device)[0] == 49
    assert fold("min_long", 2**40, device, torch.int64)[0] == -50


def test_and_or_xor_combine_bits(device):
    assert fold("and_", -1, device)[0] == 0
    assert fold("or_", 0, device)[0] == 0b1111111
    expected = 0
    for i in range(100):
        expected ^= i
    assert fold("xor_", 0, device)[0] == expected


def test_inc_wraps_to_zero_at_its_bound_and_dec_wraps_to_the_bound(device):
    last, old = fold("inc", 0, device)
    assert last == 0 and sorted(set(old)) == list(range(10))
    last, old = fold("dec", 0, device)
    assert last == 0 and sorted(set(old)) == list(range(10))


def test_exchange_hands_every_value_on_exactly_once(device):
    last, old = fold("exch", -1, device)
    assert sorted([*old, last]) == list(range(-1, 100))


def test_compare_and_swap_writes_only_over_the_expected_value(device):
    p = torch.tensor([5], dtype=torch.int32, device=device)
    old = torch.zeros(100, dtype=torch.int32, device=device)
    run("cas", 2, 50, (p, old))
    # Thread 5 makes it 6; if thread 6 comes later it makes it 7, and so on; every other one changes
    # nothing.
    assert p.item() >= 6 and old[5].item() == 5


def test_a_histogram_in_shared_memory_counts_everything(device):
    x = torch.randint(0, 8, (1000,), generator=torch.Generator().manual_seed(0)).int()
    bins = torch.zeros(8, dtype=torch.int32, device=device)
    run("shared_histogram", 8, 128, (x.to(device), bins, 1000))
    assert bins.tolist() == torch.bincount(x, minlength=8).tolist()


def test_the_last_block_sees_what_the_others_wrote(device):
    x = torch.ones(16 * 64, device=device)
    partial, total = torch.zeros(16, device=device), torch.zeros(1, device=device)
    run("last_block", 16, 64, (x, partial, total, torch.zeros(1, dtype=torch.int32, device=device)))
    assert total.item() == 16 * 64


def test_waiting_for_another_threads_flag_ends(device):
    flag, out = (torch.zeros(1, dtype=torch.int32, device=device) for _ in range(2))
    run("wait_for_flag", 1, 64, (flag, out))
    assert out.item() == 7
