// device.cuh's functions, each by a kernel that shows all of what it does.
#include "device.cuh"

// C[16, 8] = A[16, 16] @ B[16, 8] by one warp, straight from global memory into fragments.
template <class T>
__global__ void mma_tile(float* C, const T* A, const T* B) {
  int group = threadIdx.x / 4, t = threadIdx.x % 4;
  unsigned a[4], b[2];
  float c[4];
  for (int r = 0; r < 4; r++) {
    int row = group + 8 * (r % 2), k = 2 * t + 8 * (r / 2);
    a[r] = *(const unsigned*)(A + row * 16 + k);
    c[r] = C[(group + 8 * (r / 2)) * 8 + 2 * t + r % 2];
  }
  for (int r = 0; r < 2; r++) {
    T pair[2] = {B[(2 * t + 8 * r) * 8 + group], B[(2 * t + 8 * r + 1) * 8 + group]};
    memcpy(&b[r], pair, 4);
  }
  mma_m16n8k16<T>(c, a, b, c);
  for (int r = 0; r < 4; r++) C[(group + 8 * (r / 2)) * 8 + 2 * t + r % 2] = c[r];
}

// The same product with the fragments loaded by ldmatrix from shared memory.
template <class T>
__global__ void mma_from_shared(float* C, const T* A, const T* B) {
  __shared__ __align__(16) T As[16][16], Bs[16][8];
  int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) As[i / 16][i % 16] = A[i];
  for (int i = lane; i < 128; i += 32) Bs[i / 8][i % 8] = B[i];
  __syncwarp();
  unsigned a[4], both[4];
  load_matrix_x4(a, &As[lane % 16][lane / 16 * 8]);
  load_matrix_x4_transposed(both, &Bs[lane % 16][0]);  // matrices 2 and 3 repeat 0 and 1
  unsigned b[2] = {both[0], both[1]};
  float c[4] = {0, 0, 0, 0};
  mma_m16n8k16<T>(c, a, b, c);
  int group = lane / 4, t = lane % 4;
  for (int r = 0; r < 4; r++) C[(group + 8 * (r / 2)) * 8 + 2 * t + r % 2] = c[r];
}

// Two tiles in flight: while one is added up, the next is on its way. The last tile may be cut off by `n`.
extern "C" __global__ void copy_pipeline(float* out, const float* x, int n, int tiles) {
  __shared__ __align__(16) float buffer[2][128];
  auto fetch = [&](int tile) {
    int i = tile * 128 + threadIdx.x * 4;
    copy_async(&buffer[tile % 2][threadIdx.x * 4], x + (i < n ? i : 0), i < n);
    copy_async_commit();
  };
  fetch(0);
  float sum = 0.0f;
  for (int tile = 0; tile < tiles; tile++) {
    if (tile + 1 < tiles) {
      fetch(tile + 1);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 128; i += 32) sum += buffer[tile % 2][i];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

// Reads without waiting: wrong, and the emulator shows it.
extern "C" __global__ void copy_without_wait(float* out, const float* x) {
  __shared__ __align__(16) float s[128];
  copy_async(&s[threadIdx.x * 4], x + threadIdx.x * 4);
  copy_async_commit();
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x * 4];
}

template <class T>
__global__ void stream(T* out, const T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) store_streaming(out + i, load_streaming(x + i));
}
