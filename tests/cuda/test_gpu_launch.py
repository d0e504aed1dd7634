"""The GPU's side: torch's current stream, CUDA graphs, many shared bytes."""

import warnings
from functools import cache

import pytest
import torch

from tinyvllm.cuda import CompileError, RawModule

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason="no NVIDIA GPU here: run `make test-gpu` where there is one",
    ),
]

TEXT = """
__global__ void add_one(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}
__global__ void slow_set(float* x, float value, long long cycles) {
  long long start = clock64();
  while (clock64() - start < cycles) {}
  x[0] = value;
}
__global__ void big_shared(float* x, int n) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
  __syncthreads();
  x[threadIdx.x] = s[n - 1 - threadIdx.x];
}
"""


@cache
def module() -> RawModule:
    return RawModule(TEXT)


def kernel(name):
    return module().get_function(name)


def test_a_launch_is_ordered_by_torchs_current_stream():
    x, y = torch.zeros(1, device="cuda"), torch.zeros(1, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        kernel("slow_set")((1,), (1,), (x, 3.0, 50_000_000))
        y.copy_(x)  # on the same stream: sees the kernel's result
    stream.synchronize()
    assert y.item() == 3.0


def test_a_launch_does_not_wait_for_the_gpu():
    x = torch.zeros(1, device="cuda")
    kernel("slow_set")((1,), (1,), (x, 1.0, 1000))
    torch.cuda.synchronize()
    event = torch.cuda.Event()
    kernel("slow_set")((1,), (1,), (x, 2.0, 500_000_000))
    event.record()
    assert not event.query()
    torch.cuda.synchronize()
    assert x.item() == 2.0


def test_a_launch_can_be_captured_in_a_cuda_graph_and_replayed():
    x = torch.zeros(100, device="cuda")
    kernel("add_one")((1,), (128,), (x, 100))  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.mul_(2)
        kernel("add_one")((1,), (128,), (x, 100))
        kernel("add_one")((1,), (128,), (x, 60))
    x.fill_(5)
    for _ in range(2):
        graph.replay()
    assert x[:60].unique().tolist() == [26.0] and x[60:].unique().tolist() == [23.0]


@pytest.mark.parametrize("size", [1000, 40_000, 150_000])
def test_large_dynamic_shared_memory_is_asked_for(size):
    x = torch.zeros(64, device="cuda")
    kernel("big_shared")((1,), (64,), (x, size // 4), shared_mem=size)
    assert x.tolist() == [size // 4 - 1 - i for i in range(64)]


def test_more_shared_memory_than_the_gpu_has_is_an_error():
    limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    if limit >= 227 * 1024:
        pytest.skip("this GPU has all that can be asked for")
    with pytest.raises(ValueError, match=r"on this GPU a block of this kernel can have"):
        kernel("big_shared")((1,), (64,), (torch.zeros(64, device="cuda"), 1), shared_mem=limit + 1)


def test_repeated_launches_still_check_their_arguments():
    x = torch.zeros(8, device="cuda")
    for _ in range(3):
        kernel("add_one")((1,), (32,), (x, 8))
    with pytest.raises(TypeError, match=r"argument 1, `x`, .* is float64"):
        kernel("add_one")((1,), (32,), (x.double(), 8))
    with pytest.raises(ValueError, match=r"argument 1, `x`, is not contiguous"):
        kernel("add_one")((1,), (32,), (x[::2], 4))
    with pytest.raises(TypeError, match=r"argument 2, `n`"):
        kernel("add_one")((1,), (32,), (x, 8.0))
    with pytest.raises(ValueError, match=r"block.x is 0"):
        kernel("add_one")((1,), (0,), (x, 8))
    assert x.tolist() == [3.0] * 8


def test_cupy_arrays_are_taken_and_give_what_torch_tensors_give():
    import cupy

    x = cupy.zeros(8, dtype=cupy.float32)
    kernel("add_one")((1,), (32,), (x, 8))
    torch.cuda.synchronize()
    assert x.tolist() == [1.0] * 8


def test_a_compile_error_has_the_texts_own_line():
    broken = RawModule("__global__ void f(float* x) {\n  x[0] = y;\n}", filename="mine.cu")
    with pytest.raises(CompileError, match=r'mine\.cu:2:1: identifier "y" is undefined'):
        broken.get_function("f")((1,), (1,), (torch.zeros(1, device="cuda"),))


def test_nothing_is_deprecated():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.zeros(8, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            kernel("add_one")((1,), (32,), (x, 8))
        torch.cuda.synchronize()
