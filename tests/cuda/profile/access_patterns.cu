// What profile mode is held to on a GPU: one pattern of memory accesses a kernel, launched by profiled_launches.py.
//
// The counts must not depend on a compiler's taste. So each access is one that no compiler can drop, join with a
// neighbour (the inner loops of the matrix products are not unrolled: it would make 16-byte loads of a row of a shared
// array) or make twice.
#include <cuda_bf16.h>

// ---- global memory ----

__global__ void copy_floats(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

__global__ void load_strided(const float* x, float* y, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i * stride];
}

__global__ void store_strided(const float* x, float* y, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i * stride] = x[i];
}

__global__ void copy_float2(const float2* x, float2* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

__global__ void copy_float4(const float4* x, float4* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

__global__ void load_float4_strided(const float4* x, float4* y, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i * stride];
}

__global__ void copy_bytes(const unsigned char* x, unsigned char* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

__global__ void copy_bf16(const __nv_bfloat16* x, __nv_bfloat16* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

__global__ void copy_eight_bf16(const uint4* x, uint4* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

// Every `lanes` neighbours load the same element.
__global__ void load_broadcast(const float* x, float* y, int lanes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i / lanes];
}

__global__ void load_float4_broadcast(const float4* x, float4* y, int lanes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i / lanes];
}

__global__ void gather(const float* x, const int* index, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[index[i]];
}

__global__ void copy_ragged(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = x[i];
}

__global__ void copy_every_other(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 2) y[i] = x[i];
}

// The lanes of a warp go through the loop a different number of times.
__global__ void copy_triangle(const float* x, float* y) {
  int lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
#pragma unroll 1
  for (int k = 0; k <= lane; k++) y[(warp * 32 + k) * 32 + lane] = x[(warp * 32 + k) * 32 + lane];
}

struct Particle {
  float x, y, z, mass;
};

__global__ void array_of_structs(const Particle* p, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = p[i].x * p[i].mass;
}

__global__ void struct_of_arrays(const float* x, const float* mass, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] * mass[i];
}

// ---- shared memory ----

__global__ void read_shared(const float* x, float* y, int stride) {
  __shared__ float s[256 * 33];
  for (int i = threadIdx.x; i < 256 * stride; i += 256) s[i] = x[i];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x * stride];
}

__global__ void write_shared(const float* x, float* y, int stride) {
  __shared__ float s[256 * 33];
  s[threadIdx.x * stride] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[(threadIdx.x ^ 1) * stride];
}

__global__ void read_shared_broadcast(const float* x, float* y, int lanes) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x / lanes];
}

__global__ void read_shared_bf16(const __nv_bfloat16* x, __nv_bfloat16* y, int stride) {
  __shared__ __nv_bfloat16 s[256 * 4];
  for (int i = threadIdx.x; i < 256 * stride; i += 256) s[i] = x[i];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x * stride];
}

__global__ void read_shared_float2(const float2* x, float2* y, int stride) {
  __shared__ float2 s[256 * 4];
  for (int i = threadIdx.x; i < 256 * stride; i += 256) s[i] = x[i];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x * stride];
}

__global__ void read_shared_float4(const float4* x, float4* y, int stride) {
  __shared__ float4 s[256 * 4];
  for (int i = threadIdx.x; i < 256 * stride; i += 256) s[i] = x[i];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x * stride];
}

// Every `lanes` neighbours read the same four floats.
__global__ void read_shared_float4_broadcast(const float4* x, float4* y, int lanes) {
  __shared__ float4 s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x / lanes];
}

// ---- transposes of an n x n matrix: blocks of 32 x 8 threads, tiles of 32 x 32 ----

__global__ void transpose_naive(const float* x, float* y, int n) {
  int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) y[column * n + row + j] = x[(row + j) * n + column];
}

__global__ void transpose_shared(const float* x, float* y, int n) {
  __shared__ float tile[32][32];
  int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(row + j) * n + column];
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) y[(row + j) * n + column] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void transpose_padded(const float* x, float* y, int n) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(row + j) * n + column];
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) y[(row + j) * n + column] = tile[threadIdx.x][threadIdx.y + j];
}

// ---- sums of 256 floats a block ----

__global__ void sum_modulo(const float* x, float* y) {
  __shared__ float s[256];
  s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    if (threadIdx.x % (2 * step) == 0) s[threadIdx.x] += s[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}

__global__ void sum_interleaved(const float* x, float* y) {
  __shared__ float s[256];
  s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
#pragma unroll 1  // else s[2 t] and s[2 t + 1] are one load of 8 bytes
  for (int step = 1; step < 256; step *= 2) {
    int i = 2 * step * threadIdx.x;
    if (i < 256) s[i] += s[i + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}

__global__ void sum_sequential(const float* x, float* y) {
  __shared__ float s[256];
  s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) s[threadIdx.x] += s[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}

__device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, offset);
  return v;
}

__global__ void sum_shuffle(const float* x, float* y) {
  __shared__ float partial[8];
  float sum = warp_sum(x[blockIdx.x * 256 + threadIdx.x]);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = warp_sum(threadIdx.x < 8 ? partial[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
  }
}

// ---- whole kernels ----

template <int tile>
__global__ void gemm(const float* A, const float* B, float* C, int N, int K) {
  __shared__ float As[tile][tile], Bs[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += tile) {
    As[threadIdx.y][threadIdx.x] = A[row * K + k0 + threadIdx.x];
    Bs[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * N + column];
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < tile; k++) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    __syncthreads();
  }
  C[row * N + column] = sum;
}

template <class T>
__global__ void rms_norm(T* out, const T* x, const T* weight, int hidden_size, float eps) {
  __shared__ float partial[32];
  const T* row = x + (size_t)blockIdx.x * hidden_size;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
    float v = float(row[i]);
    sum += v * v;
  }
  sum = warp_sum(sum);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  sum = warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
  float scale = rsqrtf(sum / hidden_size + eps);
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x)
    out[(size_t)blockIdx.x * hidden_size + i] = T(float(row[i]) * scale * float(weight[i]));
}
