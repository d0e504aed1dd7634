"""What the CUDA emulator costs: `python -m tinyvllm.bench.emulator`. With a GPU, also what a launch
costs the host.

Quiet machine, please: the numbers are wall times, the best of several runs. Aims on two quiet
cores: 60 ns a thread and barrier, RMSNorm [64, 1024] bf16 in 20 ms, paged attention over 1,720
head-tokens in 60 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from tinyvllm.cuda import Kernel, RawModule

MICRO = r"""
extern "C" __global__ void nothing() {}
extern "C" __global__ void barriers(float* out, int n) {
  for (int i = 0; i < n; i++) __syncthreads();
  if (threadIdx.x == 0) out[0] = n;
}
extern "C" __global__ void shuffles(float* out, int n) {
  float v = threadIdx.x;
  for (int i = 0; i < n; i++) v += __shfl_xor_sync(0xFFFFFFFFu, v, 1);
  if (threadIdx.x == 0) out[0] = v;
}
extern "C" __global__ void add_one(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}
extern "C" __global__ void many(float* a, float* b, float* c, float* d, float* e, float* f,
                                float* g, float* h, int i, int j, int k, float l, float m,
                                float n) {
  if (threadIdx.x == 0)
    a[0] = b[0] + c[0] + d[0] + e[0] + f[0] + g[0] + h[0] + i + j + k + l + m + n;
}
"""

# A block a row: squares are added up in registers, by shuffles in a warp, through shared memory in
# the block.
RMS_NORM = r"""
extern "C" __global__ void rms_norm(scalar_t* out, const scalar_t* x, const scalar_t* weight, int n,
                                    float eps) {
  __shared__ float partial[32];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = float(x[blockIdx.x * n + i]);
    sum += v * v;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : 0.0f;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  float scale = rsqrtf(sum / n + eps);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[blockIdx.x * n + i] = scalar_t(float(x[blockIdx.x * n + i]) * scale * float(weight[i]));
}
"""

# A block a head of a sequence, a warp a token at a time, two elements a lane.
PAGED_ATTENTION = r"""
extern "C" __global__ void paged_attention(scalar_t* out, const scalar_t* q,
                                           const scalar_t* k_cache,
                                           const scalar_t* v_cache, const int* block_tables,
                                           const int* seq_lens, int num_kv_heads, int block_size,
                                           int max_blocks, float scale) {
  __shared__ float shared[4][66];
  int head = blockIdx.x, seq = blockIdx.y, kv_head = head / (gridDim.x / num_kv_heads);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const scalar_t* query = q + (seq * gridDim.x + head) * 64;
  float q0 = float(query[lane]) * scale, q1 = float(query[lane + 32]) * scale;
  float top = -INFINITY, sum = 0.0f, v0 = 0.0f, v1 = 0.0f;
  for (int t = warp; t < seq_lens[seq]; t += 4) {
    int block = block_tables[seq * max_blocks + t / block_size];
    int at = ((block * block_size + t % block_size) * num_kv_heads + kv_head) * 64 + lane;
    float score = q0 * float(k_cache[at]) + q1 * float(k_cache[at + 32]);
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, step);
    float next = fmaxf(top, score), keep = __expf(top - next), weight = __expf(score - next);
    sum = sum * keep + weight;
    v0 = v0 * keep + weight * float(v_cache[at]);
    v1 = v1 * keep + weight * float(v_cache[at + 32]);
    top = next;
  }
  shared[warp][lane] = v0, shared[warp][lane + 32] = v1;
  if (lane == 0) shared[warp][64] = top, shared[warp][65] = sum;
  __syncthreads();
  if (threadIdx.x < 64) {
    float best = -INFINITY, value = 0.0f, weights = 0.0f;
    for (int w = 0; w < 4; w++) best = fmaxf(best, shared[w][64]);
    for (int w = 0; w < 4; w++) {
      float factor = shared[w][64] == -INFINITY ? 0.0f : __expf(shared[w][64] - best);
      value += shared[w][threadIdx.x] * factor, weights += shared[w][65] * factor;
    }
    value = weights > 0.0f ? value / weights : 0.0f;
    out[(seq * gridDim.x + head) * 64 + threadIdx.x] = scalar_t(value);
  }
}
"""


def best_ms(launch: Callable[[], None], runs: int = 7) -> float:
    """Milliseconds of the fastest of some runs, after one that compiles."""
    launch()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        launch()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def ns_per_step(kernel: Kernel, threads: int, steps: int = 2000) -> float:
    """Nanoseconds of one thread for one step of a kernel's loop, launch costs taken off."""
    out = torch.zeros(1)
    whole = best_ms(lambda: kernel((1,), (threads,), (out, steps)))
    empty = best_ms(lambda: kernel((1,), (threads,), (out, 0)))
    return 1e6 * (whole - empty) / steps / threads


def rms_norm_ms() -> float:
    kernel = RawModule(RMS_NORM, scalar_t="bf16").get_function("rms_norm")
    x, weight = torch.randn(64, 1024).bfloat16(), torch.randn(1024).bfloat16()
    out = torch.empty_like(x)
    return best_ms(lambda: kernel((64,), (256,), (out, x, weight, 1024, 1e-6)))


def paged_attention_ms() -> float:
    """7 sequences of 430 tokens in all, 4 heads of 64 on 2 KV heads: 1,720 head-tokens."""
    kernel = RawModule(PAGED_ATTENTION, scalar_t="bf16").get_function("paged_attention")
    seq_lens = torch.tensor([0, 1, 7, 17, 33, 129, 243], dtype=torch.int32)
    caches = [torch.randn(7 * 16, 16, 2, 64).bfloat16() for _ in range(2)]
    q = torch.randn(7, 4, 64).bfloat16()
    tables = torch.randperm(7 * 16).view(7, 16).int()
    args = (torch.empty_like(q), q, *caches, tables, seq_lens, 2, 16, 16, 0.125)
    return best_ms(lambda: kernel((4, 7), (128,), args))


def host_us(launch: Callable[[], None], n: int = 500) -> float:
    """Microseconds of the host for one launch, the best of seven loops from an idle GPU."""
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            launch()
        times.append((time.perf_counter() - start) / n)
    return 1e6 * min(times)


def launch_costs() -> None:
    """Ours against a bare CuPy RawKernel, whose stream is current and whose arguments are ready."""
    import cupy
    import numpy as np

    x = [torch.zeros(8, device="cuda") for _ in range(8)]
    module, bare = RawModule(MICRO), cupy.RawModule(code=MICRO)
    numbers = (*map(np.int32, (1, 2, 3)), *map(np.float32, (1, 2, 3)))
    for name, args, ready in (
        ("add_one", (x[0], 8), (x[0].data_ptr(), np.int32(8))),
        ("many", (*x, 1, 2, 3, 1.0, 2.0, 3.0), (*(t.data_ptr() for t in x), *numbers)),
    ):
        ours, theirs = module.get_function(name), bare.get_function(name)
        ours((1,), (32,), args)
        theirs((1,), (32,), ready)
        a = host_us(lambda ours=ours, args=args: ours((1,), (32,), args))
        b = host_us(lambda theirs=theirs, ready=ready: theirs((1,), (32,), ready))
        what = f"launch, {len(args)} arguments"
        print(f"{what:36}{a:9.2f} us   (bare CuPy {b:.2f} us: {a / b:.2f}x)")


def main() -> None:
    module = RawModule(MICRO)
    barriers, shuffles, nothing, add_one = map(
        module.get_function, ("barriers", "shuffles", "nothing", "add_one")
    )
    x = torch.zeros(1 << 20)
    rows = [
        (f"barrier, {n} threads", ns_per_step(barriers, n), "ns/thread") for n in (32, 256, 1024)
    ]
    rows += [
        ("shuffle, 256 threads", ns_per_step(shuffles, 256), "ns/thread"),
        ("empty launch", best_ms(lambda: nothing((1,), (32,), ()), 50), "ms"),
        ("1,048,576 threads", best_ms(lambda: add_one((4096,), (256,), (x, 1 << 20))), "ms"),
        ("RMSNorm [64, 1024] bf16", rms_norm_ms(), "ms"),
        ("paged attention, 1,720 head-tokens", paged_attention_ms(), "ms"),
    ]
    for what, value, unit in rows:
        print(f"{what:36}{value:9.2f} {unit}")
    if torch.cuda.is_available():
        launch_costs()


if __name__ == "__main__":
    main()
