// Correct kernels that a careless checker would complain about: within a warp, and atomics. Launches: ../check_corpus.py.
#include <cuda_bf16.h>

// Warp-synchronous tree: read, meet, write, meet.
extern "C" __global__ void syncwarp_reduction(float* out, const float* x) {
  __shared__ float sums[128];
  int lane = threadIdx.x % 32, first = threadIdx.x - lane;
  float v = x[threadIdx.x];
  sums[threadIdx.x] = v;
  __syncwarp();
  for (int offset = 16; offset > 0; offset /= 2) {
    v += sums[first + (lane + offset) % 32];
    __syncwarp();
    sums[threadIdx.x] = v;
    __syncwarp();
  }
  out[threadIdx.x] = sums[first + 31 - lane];
}

// Partial sums of warps; lanes beyond the number of warps take zero.
extern "C" __global__ void block_reduction(float* out, const float* x, int n) {
  __shared__ float partial[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, o);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < warps ? partial[lane] : 0.0f;
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, o);
    if (lane == 0) out[0] = sum;
  }
}

// Half warps meet by themselves and exchange only among themselves.
extern "C" __global__ void half_warp_exchange(int* out, const int* x) {
  __shared__ int row[64];
  int lane = threadIdx.x % 32;
  unsigned half = lane < 16 ? 0x0000FFFFu : 0xFFFF0000u;
  int first = threadIdx.x & ~15;
  for (int round = 0; round < 3; round++) {
    row[threadIdx.x] = x[threadIdx.x] + round;
    __syncwarp(half);
    out[threadIdx.x] = row[first + 15 - threadIdx.x % 16];
    __syncwarp(half);
  }
}

// Lane 0 hands work to the others; what lane 3 read reaches lane 0 by way of lane 1's and lane 2's meetings.
extern "C" __global__ void chain_of_meetings(int* out) {
  __shared__ int value;
  int lane = threadIdx.x;
  if (lane == 0) value = 5;
  if (lane < 2) __syncwarp(0x3u);
  if (lane == 1 || lane == 2) __syncwarp(0x6u);
  if (lane == 2 || lane == 3) __syncwarp(0xCu);
  if (lane == 3) out[0] = value;
  if (lane == 2 || lane == 3) __syncwarp(0xCu);
  if (lane == 1 || lane == 2) __syncwarp(0x6u);
  if (lane < 2) __syncwarp(0x3u);
  if (lane == 0) {
    value = 6;
    out[1] = value;
  }
}

// Only some lanes take part, and the mask says which.
extern "C" __global__ void partial_masks(int* out, const int* x, int n) {
  int i = threadIdx.x;
  unsigned active = __ballot_sync(0xFFFFFFFFu, i < n);
  int sum = 0;
  if (i < n) {
    sum = x[i];
    sum += __shfl_xor_sync(active, sum, 1);
    sum += __shfl_xor_sync(active, sum, 2);
    if (__all_sync(active, sum > 0)) sum += 1000;
  }
  out[i] = sum;
}

// Warps without work leave before the barriers.
extern "C" __global__ void early_return(int* out, const int* x, int n) {
  __shared__ int row[128];
  int rounded = (n + 31) / 32 * 32;
  if (threadIdx.x >= rounded) return;
  row[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0;
  __syncthreads();
  out[threadIdx.x] = row[rounded - 1 - threadIdx.x];
  __syncthreads();
  row[rounded - 1 - threadIdx.x] = 1;
}

// Shared counters, and a plain read behind the barrier.
extern "C" __global__ void histogram(int* out, const int* x, int n) {
  __shared__ int bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

// Many threads set the same flag to the same value, behind a barrier all read it.
extern "C" __global__ void any_of_them(int* out, const int* x) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  if (x[threadIdx.x] > 5) found = 1;
  __syncthreads();
  out[threadIdx.x] = found;
}

// Bytes of one word belong to four threads.
extern "C" __global__ void neighbouring_bytes(unsigned char* out, const unsigned char* x) {
  __shared__ unsigned char flags[128];
  __shared__ __nv_bfloat16 halves[128];
  flags[threadIdx.x] = x[threadIdx.x];
  halves[threadIdx.x] = __nv_bfloat16(float(flags[threadIdx.x]));
  __syncthreads();
  int other = 127 - threadIdx.x;
  out[threadIdx.x] = flags[other] + (unsigned char)(int)float(halves[other]);
}

// The last warp to arrive adds up: a fence and an atomic on each side, no barrier.
extern "C" __global__ void last_warp(float* out, const float* x) {
  __shared__ float partial[4];
  __shared__ int arrived;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  float sum = x[threadIdx.x];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, o);
  if (lane == 0) {
    partial[warp] = sum;
    __threadfence_block();
    if (atomicAdd(&arrived, 1) == 3) {
      __threadfence_block();
      out[0] = partial[0] + partial[1] + partial[2] + partial[3];
    }
  }
}

// A lock, taken by one thread of each warp.
extern "C" __global__ void spin_lock(int* out, int* lock) {
  if (threadIdx.x % 32 == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    out[0] += 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}

// A count of votes; the barrier carries the result.
extern "C" __global__ void counting_barrier(int* out, const int* x) {
  __shared__ int row[64];
  row[threadIdx.x] = x[threadIdx.x];
  int positive = __syncthreads_count(row[threadIdx.x] > 3);
  out[threadIdx.x] = positive * 100 + row[63 - threadIdx.x];
}
