// Kernels with one race or one read of unwritten memory each. FAULT: the line of one of the two accesses; the other one
// ends in OTHER where it is not the same line. Launches: ../check_corpus.py.
#include <device.cuh>

extern "C" __global__ void no_barrier(float* out, const float* x) {
  __shared__ float row[128];
  row[threadIdx.x] = x[threadIdx.x];  // FAULT
  out[threadIdx.x] = row[127 - threadIdx.x];  // OTHER
}

// The barrier at the end of the loop is missing: the next tile overwrites what others still read.
extern "C" __global__ void no_second_barrier(float* out, const float* x, int tiles) {
  __shared__ float tile[64];
  float sum = 0.0f;
  for (int t = 0; t < tiles; t++) {
    tile[threadIdx.x] = x[t * 64 + threadIdx.x];  // OTHER
    __syncthreads();
    for (int i = 0; i < 64; i++) sum += tile[i];  // FAULT
  }
  out[threadIdx.x] = sum;
}

// Lanes of a warp do not run in step.
extern "C" __global__ void no_syncwarp(float* out, const float* x) {
  __shared__ float sums[64];
  int i = threadIdx.x;
  sums[i] = x[i] + x[i + 32];
  __syncwarp();
  for (int offset = 16; offset > 0; offset /= 2)
    if (i < offset) sums[i] += sums[i + offset];  // FAULT
  if (i == 0) out[0] = sums[0];
}

// As it was written before Volta: volatile orders nothing between threads.
extern "C" __global__ void volatile_warp(float* out, const float* x) {
  __shared__ float sums[64];
  int i = threadIdx.x;
  sums[i] = x[i];
  __syncthreads();
  volatile float* v = sums;
  if (i < 32) {
    v[i] += v[i + 32];  // OTHER
    if (i < 16) v[i] += v[i + 16];  // FAULT
    if (i < 8) v[i] += v[i + 8];  // OTHER
    if (i < 4) v[i] += v[i + 4];  // OTHER
    if (i < 2) v[i] += v[i + 2];  // OTHER
    if (i < 1) v[i] += v[i + 1];  // OTHER
  }
  if (i == 0) out[0] = v[0];
}

// A shuffle brings lanes together, but orders no memory.
extern "C" __global__ void shuffle_is_no_barrier(int* out, const int* x) {
  __shared__ int row[32];
  int lane = threadIdx.x;
  row[lane] = x[lane];  // OTHER
  int other = __shfl_xor_sync(0xFFFFFFFFu, x[lane], 1);
  out[lane] = row[lane ^ 1] - other;  // FAULT
}

extern "C" __global__ void histogram_without_atomics(int* out, const int* x, int n) {
  __shared__ int bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) bins[x[i]] += 1;  // FAULT
  __syncthreads();
  if (threadIdx.x < 16) out[threadIdx.x] = bins[threadIdx.x];
}

// Which thread's value stays?
extern "C" __global__ void all_write_one(int* out) {
  __shared__ int winner;
  winner = threadIdx.x;  // FAULT
  __syncthreads();
  out[threadIdx.x] = winner;
}

// The sum is read while others still add to it.
extern "C" __global__ void atomic_and_read(int* out) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);  // OTHER
  out[threadIdx.x] = total;  // FAULT
}

// The first thread sets the counter while others already use it.
extern "C" __global__ void atomic_before_start(int* out) {
  __shared__ int count;
  if (threadIdx.x == 64) count = 0;  // FAULT
  if (threadIdx.x != 64) atomicAdd(&count, 1);  // OTHER
  __syncthreads();
  out[threadIdx.x] = count;
}

// Two buffers, but the next round writes the one that is read.
extern "C" __global__ void wrong_buffer(float* out, const float* x, int rounds) {
  __shared__ float buffer[2][64];
  float sum = 0.0f;
  buffer[0][threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int r = 0; r < rounds; r++) {
    if (r + 1 < rounds) buffer[r % 2][threadIdx.x] = x[(r + 1) * 64 + threadIdx.x];  // FAULT
    sum += buffer[r % 2][63 - threadIdx.x];  // OTHER
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

// A block-wide maximum and a block-wide sum through the same variable.
extern "C" __global__ void reused_scratch(float* out, const float* x) {
  __shared__ float scratch[2];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float v = x[threadIdx.x], top = v;
  for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, o));
  if (lane == 0) scratch[warp] = top;
  __syncthreads();
  top = fmaxf(scratch[0], scratch[1]);  // OTHER
  float sum = __expf(v - top);
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, o);
  if (lane == 0) scratch[warp] = sum;  // FAULT
  __syncthreads();
  out[threadIdx.x] = __expf(v - top) / (scratch[0] + scratch[1]);
}

// Each half of the warp meets by itself, and then reads what the other half wrote.
extern "C" __global__ void half_warps(int* out, const int* x) {
  __shared__ int row[32];
  int lane = threadIdx.x;
  unsigned half = lane < 16 ? 0x0000FFFFu : 0xFFFF0000u;
  row[lane] = x[lane];  // FAULT
  __syncwarp(half);
  out[lane] = row[31 - lane];  // OTHER
}

// The barrier stands before the loop instead of inside.
extern "C" __global__ void tree_without_barrier(float* out, const float* x) {
  __shared__ float sums[256];
  int i = threadIdx.x;
  sums[i] = x[i];
  __syncthreads();
  for (int offset = 128; offset > 0; offset /= 2)
    if (i < offset) sums[i] += sums[i + offset];  // FAULT
  if (i == 0) out[0] = sums[0];
}

// bfloat16 pairs share a word: the neighbour's half is not the thread's own.
extern "C" __global__ void half_of_a_pair(__nv_bfloat16* out, const __nv_bfloat16* x) {
  __shared__ __nv_bfloat16 row[64];
  row[threadIdx.x] = x[threadIdx.x];  // FAULT
  out[threadIdx.x] = row[(threadIdx.x + 32) % 64];  // OTHER
}

// Dynamic shared memory, an array of structs.
struct Best {
  float value;
  int index;
};
extern "C" __global__ void argmax_tree(int* out, const float* x) {
  extern __shared__ Best best[];
  int i = threadIdx.x;
  best[i].value = x[i];
  best[i].index = i;
  __syncthreads();
  for (int offset = 64; offset > 0; offset /= 2) {
    if (i < offset && best[i + offset].value > best[i].value) best[i] = best[i + offset];  // FAULT
    if (offset > 32) __syncthreads();
  }
  if (i == 0) out[0] = best[0].index;
}

// The copies of other threads are visible only behind a barrier.
extern "C" __global__ void async_without_barrier(float* out, const float* x) {
  __shared__ __align__(16) float staged[256];
  copy_async(&staged[4 * threadIdx.x], x + 4 * threadIdx.x);  // FAULT
  copy_async_commit();
  copy_async_wait<0>();
  out[threadIdx.x] = staged[255 - threadIdx.x];  // OTHER
}

// Nobody waits for the copy.
extern "C" __global__ void async_without_wait(float* out, const float* x) {
  __shared__ __align__(16) float staged[256];
  copy_async(&staged[4 * threadIdx.x], x + 4 * threadIdx.x);  // OTHER
  copy_async_commit();
  __syncthreads();
  out[threadIdx.x] = staged[4 * threadIdx.x];  // FAULT
}

// Fence or not: without an atomic or a barrier the reader does not know when to read.
extern "C" __global__ void fence_alone(int* out) {
  __shared__ int message;
  if (threadIdx.x == 0) {
    message = 7;  // OTHER
    __threadfence_block();
  }
  if (threadIdx.x == 32) out[0] = message;  // FAULT
}

// ---- unwritten shared memory ----

// The loop that fills ends too early.
extern "C" __global__ void unfilled_tail(float* out, const float* x, int n) {
  __shared__ float row[64];
  if (threadIdx.x < n - 1) row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) out[threadIdx.x] = row[n - 1 - threadIdx.x];  // FAULT
}

extern "C" __global__ void unset_sum(int* out) {
  __shared__ int total;
  atomicAdd(&total, 1);  // FAULT
  __syncthreads();
  out[threadIdx.x] = total;
}

// 4 warps wrote a partial sum each, 32 are read.
extern "C" __global__ void unset_partials(float* out, const float* x) {
  __shared__ float partial[32];
  float sum = x[threadIdx.x];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = partial[threadIdx.x];  // FAULT
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, o);
    if (threadIdx.x == 0) out[0] = sum;
  }
}

// The halo's right element is never loaded, and a vector reads it.
extern "C" __global__ void unset_vector_tail(float* out, const float* x, int n) {
  __shared__ __align__(16) float row[64];
  if (threadIdx.x < n) row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 16) {
    float4 v = *(float4*)&row[4 * threadIdx.x];  // FAULT
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
  }
}

// ---- global memory ----

// A last-block reduction without its fence.
extern "C" __global__ void last_block_without_fence(float* out, float* partial, int* count, const float* x) {
  __shared__ float sums[64];
  __shared__ int last;
  int i = threadIdx.x;
  sums[i] = x[blockIdx.x * 64 + i];
  __syncthreads();
  if (i == 0) {
    float sum = 0.0f;
    for (int k = 0; k < 64; k++) sum += sums[k];
    partial[blockIdx.x] = sum;  // OTHER
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && i == 0) {
    float sum = 0.0f;
    for (int b = 0; b < gridDim.x; b++) sum += partial[b];  // FAULT
    out[0] = sum;
  }
}

// In place, while the block to the left still reads.
extern "C" __global__ void stencil_in_place(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float right = i + 1 < n ? x[i + 1] : 0.0f;  // OTHER
  __syncthreads();
  if (i < n) x[i] = 0.5f * (x[i] + right);  // FAULT
}

// Through global memory and without a barrier.
extern "C" __global__ void global_exchange(float* out, float* scratch, const float* x) {
  scratch[threadIdx.x] = x[threadIdx.x];  // FAULT
  out[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];  // OTHER
}

// Every block adds to one sum.
extern "C" __global__ void sum_without_atomic(int* total) {
  if (threadIdx.x == 0) total[0] += 1 + blockIdx.x;  // FAULT
}
