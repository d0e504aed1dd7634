// Kernels with one access out of bounds each, on the line that ends in FAULT. Launches: ../check_corpus.py.
#include <device.cuh>

// More threads than elements, and no `if (i < n)`.
extern "C" __global__ void no_guard(float* out, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 2.0f * x[i];  // FAULT
}

extern "C" __global__ void less_or_equal(float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = 1.0f;  // FAULT
}

// The left neighbour of the first element.
extern "C" __global__ void left_neighbour(float* out, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] - x[i - 1];  // FAULT
}

// Rows and columns mixed up: the stride of [rows, columns] is `columns`.
extern "C" __global__ void wrong_stride(float* out, const float* x, int rows, int columns) {
  int column = threadIdx.x, row = threadIdx.y;
  out[row * columns + column] = x[column * columns + row];  // FAULT
}

// Writes its right neighbour.
extern "C" __global__ void shifted_write(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i + 1] = i;  // FAULT
}

// An index far beyond everything.
extern "C" __global__ void far_away(float* out, const float* x, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = x[i * 1000003];  // FAULT
}

// None was passed for `bias`.
extern "C" __global__ void null_pointer(float* out, const float* bias, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] += bias[i];  // FAULT
}

// n is not a multiple of four.
extern "C" __global__ void vector_tail(float4* out, const float4* x, int n) {
  int i = threadIdx.x;
  if (4 * i < n) {
    float4 v = x[i];  // FAULT
    v.x += v.w;
    if (4 * i + 3 < n) out[i] = v;
  }
}

// A row of three floats does not begin at a multiple of 16 bytes.
extern "C" __global__ void misaligned_vector(float4* out, const float* x) {
  int i = threadIdx.x;
  out[i] = *(const float4*)(x + 3 * i);  // FAULT
}

// A bin for the largest value is missing.
extern "C" __global__ void histogram_bin(int* bins, const float* x, int n, int num_bins) {
  int i = threadIdx.x;
  if (i < n) {
    int bin = (int)(x[i] * num_bins);
    atomicAdd(&bins[bin], 1);  // FAULT
  }
}

// A slot of -1 (padding) is used as an index.
extern "C" __global__ void padded_slot(float* cache, const float* x, const int* slots, int n) {
  int i = threadIdx.x;
  if (i < n) cache[slots[i]] = x[i];  // FAULT
}

// A streaming load passes through a function of the device's header.
extern "C" __global__ void streaming_load(float* out, const float* x, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = load_streaming(x + n + i);  // FAULT
}

// An asynchronous copy reads 16 bytes behind the array.
extern "C" __global__ void async_source(float* out, const float* x) {
  __shared__ __align__(16) float staged[128];
  copy_async(&staged[4 * threadIdx.x], x + 4 * threadIdx.x + 4);  // FAULT
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  out[threadIdx.x] = staged[threadIdx.x];
}

// ---- shared memory ----

extern "C" __global__ void shared_end(float* out, const float* x) {
  __shared__ float row[64];
  row[threadIdx.x + 1] = x[threadIdx.x];  // FAULT
  __syncthreads();
  out[threadIdx.x] = row[threadIdx.x];
}

// Through a pointer, into the array that lies behind.
extern "C" __global__ void shared_neighbour(float* out, const float* x, int n) {
  __shared__ float first[64];
  __shared__ float second[64];
  float* p = first;
  second[threadIdx.x] = 0.0f;
  __syncthreads();
  p[threadIdx.x + n] = x[threadIdx.x];  // FAULT
  __syncthreads();
  out[threadIdx.x] = first[threadIdx.x] + second[threadIdx.x];
}

// Column 20 of a row of 17 is the next row's column 3.
extern "C" __global__ void shared_row(float* out, int columns) {
  __shared__ float tile[16][17];
  int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = 1.0f;
  if (x == 0) tile[y][16] = 0.0f;
  __syncthreads();
  out[y * 16 + x] = tile[y][x + columns];  // FAULT
}

extern "C" __global__ void shared_negative(float* out, const float* x, int n) {
  __shared__ float row[64];
  row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = row[threadIdx.x - n];  // FAULT
}

// Two arrays are carved out of room for one and a half.
extern "C" __global__ void dynamic_too_small(float* out, const float* x, int n) {
  extern __shared__ float buffer[];
  float* keys = buffer;
  float* values = buffer + n;
  keys[threadIdx.x] = x[threadIdx.x];
  values[threadIdx.x] = 2.0f * x[threadIdx.x];  // FAULT
  __syncthreads();
  out[threadIdx.x] = keys[n - 1 - threadIdx.x] + values[threadIdx.x];
}

// shared_mem= was given in elements.
extern "C" __global__ void dynamic_in_elements(float* out, const float* x) {
  extern __shared__ float staging[];
  staging[threadIdx.x] = x[threadIdx.x];  // FAULT
  __syncthreads();
  out[threadIdx.x] = staging[blockDim.x - 1 - threadIdx.x];
}

// shared_mem= was forgotten.
extern "C" __global__ void dynamic_forgotten(int* out) {
  extern __shared__ int counts[];
  counts[threadIdx.x] = threadIdx.x;  // FAULT
  __syncthreads();
  out[threadIdx.x] = counts[blockDim.x - 1 - threadIdx.x];
}

// A thread's own array.
extern "C" __global__ void local_array(float* out, const float* x, int n) {
  float mine[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int i = 0; i <= n; i++) mine[i] = x[i];  // FAULT
  for (int i = 0; i < 4; i++) out[threadIdx.x] += mine[(i + threadIdx.x) % 4];
}

// A table of the module.
__constant__ float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};
extern "C" __global__ void constant_table(float* out, const int* which) {
  out[threadIdx.x] = table[which[threadIdx.x]];  // FAULT
}
