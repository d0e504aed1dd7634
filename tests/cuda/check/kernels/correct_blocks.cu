// Correct kernels that a careless checker would complain about: tiles, buffers, blocks. Launches: ../check_corpus.py.
#include <device.cuh>

#define TILE 16

// One barrier a round: the next tile goes to the other buffer.
extern "C" __global__ void double_buffered_gemm(float* C, const float* A, const float* B, int n) {
  __shared__ float As[2][TILE][TILE], Bs[2][TILE][TILE + 1];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  As[0][y][x] = A[row * n + x];
  Bs[0][y][x] = B[y * n + column];
  __syncthreads();
  float sum = 0.0f;
  for (int k0 = 0; k0 < n; k0 += TILE) {
    int now = k0 / TILE % 2;
    if (k0 + TILE < n) {
      As[1 - now][y][x] = A[row * n + k0 + TILE + x];
      Bs[1 - now][y][x] = B[(k0 + TILE + y) * n + column];
    }
    for (int k = 0; k < TILE; k++) sum += As[now][y][k] * Bs[now][k][x];
    __syncthreads();
  }
  C[row * n + column] = sum;
}

// Ragged edges, two barriers.
extern "C" __global__ void ragged_gemm(float* C, const float* A, const float* B, int M, int N, int K) {
  __shared__ float As[TILE][TILE], Bs[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += TILE) {
    As[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
    Bs[y][x] = k0 + y < K && column < N ? B[(k0 + y) * N + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; k++) sum += As[y][k] * Bs[k][x];
    __syncthreads();
  }
  if (row < M && column < N) C[row * N + column] = sum;
}

// A last-block reduction; the last block also sets the counter back.
extern "C" __global__ void last_block(float* out, float* partial, int* count, const float* x, int n) {
  __shared__ float sums[64];
  __shared__ bool last;
  int i = threadIdx.x;
  float sum = 0.0f;
  for (int k = blockIdx.x * 64 + i; k < n; k += gridDim.x * 64) sum += x[k];
  sums[i] = sum;
  __syncthreads();
  for (int offset = 32; offset > 0; offset /= 2) {
    if (i < offset) sums[i] += sums[i + offset];
    __syncthreads();
  }
  if (i == 0) {
    partial[blockIdx.x] = sums[0];
    __threadfence();
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) {
    sum = i < gridDim.x ? partial[i] : 0.0f;
    sums[i] = sum;
    __syncthreads();
    for (int offset = 32; offset > 0; offset /= 2) {
      if (i < offset) sums[i] += sums[i + offset];
      __syncthreads();
    }
    if (i == 0) {
      out[0] = sums[0];
      *count = 0;
    }
  }
}

// All threads write a part, all make a fence, one counts the block.
extern "C" __global__ void last_block_by_all(float* out, float* partial, unsigned* count, const float* x) {
  __shared__ bool last;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  partial[i] = 2.0f * x[i];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (last)
    for (int b = 0; b < gridDim.x; b++) out[b * blockDim.x + threadIdx.x] = partial[b * blockDim.x + threadIdx.x] + 1.0f;
}

// Each block waits for the sum of the blocks before it.
extern "C" __global__ void chained_scan(int* out, volatile int* prefix, volatile int* ready, const int* x) {
  __shared__ int before;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) {
    int sum = 0;
    if (blockIdx.x > 0) {
      while (ready[blockIdx.x - 1] == 0) {
      }
      __threadfence();
      sum = prefix[blockIdx.x - 1];
    }
    before = sum;
    for (int k = 0; k < blockDim.x; k++) sum += x[blockIdx.x * blockDim.x + k];
    prefix[blockIdx.x] = sum;
    __threadfence();
    ready[blockIdx.x] = 1;
  }
  __syncthreads();
  out[i] = x[i] + before;
}

// Dynamic shared memory in three parts of three types.
extern "C" __global__ void carved(float* out, const float* x, const int* order, int n) {
  extern __shared__ __align__(16) char room[];
  float* values = (float*)room;
  int* places = (int*)(values + n);
  __nv_bfloat16* halves = (__nv_bfloat16*)(places + n);
  int i = threadIdx.x;
  values[i] = x[i];
  places[i] = order[i];
  halves[i] = __nv_bfloat16(x[i]);
  __syncthreads();
  out[i] = values[places[i]] + float(halves[places[n - 1 - i]]);
}

// An array of structs, written by members and copied whole.
struct Best {
  float value;
  int index;
};
extern "C" __global__ void argmax(int* out, const float* x) {
  __shared__ Best best[128];
  int i = threadIdx.x;
  best[i].value = x[blockIdx.x * 128 + i];
  best[i].index = i;
  __syncthreads();
  for (int offset = 64; offset > 0; offset /= 2) {
    if (i < offset) {
      Best other = best[i + offset];
      if (other.value > best[i].value) best[i] = other;
    }
    __syncthreads();
  }
  if (i == 0) out[blockIdx.x] = best[0].index;
}

// bfloat16 through a padded tile.
extern "C" __global__ void transpose(__nv_bfloat16* out, const __nv_bfloat16* x, int n) {
  __shared__ __nv_bfloat16 tile[32][33];
  int x0 = blockIdx.x * 32, y0 = blockIdx.y * 32;
  for (int r = threadIdx.y; r < 32; r += blockDim.y) tile[r][threadIdx.x] = x[(y0 + r) * n + x0 + threadIdx.x];
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += blockDim.y) out[(x0 + r) * n + y0 + threadIdx.x] = tile[threadIdx.x][r];
}

// Written as vectors, read as numbers, and the other way round.
extern "C" __global__ void vectors(float* out, const float4* x) {
  __shared__ float4 row[32];
  __shared__ __align__(16) float single[128];
  float* flat = (float*)row;
  row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int k = 0; k < 4; k++) single[k * 32 + threadIdx.x] = flat[k * 32 + threadIdx.x];
  __syncthreads();
  float4 v = *(float4*)&single[4 * (31 - threadIdx.x)];
  out[threadIdx.x] = v.x + 2.0f * v.y + 3.0f * v.z + 4.0f * v.w;
}

// Softmax in one pass over chunks: when the maximum grows, what was summed is rescaled.
extern "C" __global__ void online_softmax(float* out, const float* x, int n) {
  __shared__ float chunk[64], top, sum;
  int i = threadIdx.x;
  if (i == 0) top = -INFINITY, sum = 0.0f;
  for (int k = 0; k < n; k += 64) {
    chunk[i] = k + i < n ? x[blockIdx.x * n + k + i] : -INFINITY;
    __syncthreads();
    if (i == 0) {
      float next = top;
      for (int j = 0; j < 64; j++) next = fmaxf(next, chunk[j]);
      sum *= __expf(top - next);
      for (int j = 0; j < 64; j++) sum += __expf(chunk[j] - next);
      top = next;
    }
    __syncthreads();
  }
  for (int k = i; k < n; k += 64) out[blockIdx.x * n + k] = __expf(x[blockIdx.x * n + k] - top) / sum;
}

// cp.async into one buffer while the other one is used.
extern "C" __global__ void async_double_buffer(float* out, const float* x, int rounds) {
  __shared__ __align__(16) float staged[2][256];
  int i = threadIdx.x;
  float sum = 0.0f;
  copy_async(&staged[0][4 * i], x + 4 * i);
  copy_async_commit();
  for (int r = 0; r < rounds; r++) {
    if (r + 1 < rounds) copy_async(&staged[(r + 1) % 2][4 * i], x + (r + 1) * 256 + 4 * i);
    copy_async_commit();
    copy_async_wait<1>();
    __syncthreads();
    for (int k = 0; k < 4; k++) sum += staged[r % 2][255 - (k * 64 + i)];
    __syncthreads();
  }
  out[i] = sum;
}

// A scan between two rows, one barrier a step.
extern "C" __global__ void scan(int* out, const int* x) {
  __shared__ int rows[2][64];
  int i = threadIdx.x, from = 0;
  rows[0][i] = x[i];
  __syncthreads();
  for (int step = 1; step < 64; step *= 2) {
    rows[1 - from][i] = rows[from][i] + (i >= step ? rows[from][i - step] : 0);
    from = 1 - from;
    __syncthreads();
  }
  out[i] = rows[from][i];
}

// Halo cells at both ends, loaded by two of the threads.
extern "C" __global__ void stencil(float* out, const float* x, int n) {
  __shared__ float row[66];
  int i = blockIdx.x * 64 + threadIdx.x, s = threadIdx.x + 1;
  row[s] = i < n ? x[i] : 0.0f;
  if (threadIdx.x == 0) row[0] = i > 0 ? x[i - 1] : 0.0f;
  if (threadIdx.x == 63) row[65] = i + 1 < n ? x[i + 1] : 0.0f;
  __syncthreads();
  if (i < n) out[i] = row[s - 1] + row[s] + row[s + 1];
}

// Through global memory and back, with a barrier between.
extern "C" __global__ void global_reversal(float* out, float* scratch, const float* x) {
  float* mine = scratch + blockIdx.x * blockDim.x;
  mine[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = mine[blockDim.x - 1 - threadIdx.x];
}

// A loop that all threads leave in the same round, by a shared flag.
extern "C" __global__ void shared_exit(int* out, const int* x, int n) {
  __shared__ int done;
  int i = threadIdx.x, rounds = 0;
  if (i == 0) done = 0;
  __syncthreads();
  while (!done) {
    __syncthreads();
    rounds++;
    if (x[i] == rounds) done = 1;
    __syncthreads();
  }
  out[i] = rounds;
}

// Whatever the order of blocks, each element is changed by one thread.
extern "C" __global__ void in_place(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = 2.0f * x[i] + 1.0f;
}
