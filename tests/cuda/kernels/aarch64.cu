// What could go wrong on another processor: barriers, shuffles, both kinds of shared memory, half types, faults.
#include <cuda_bf16.h>

__global__ void everything(float* out, const __nv_bfloat16* x, int n) {
  __shared__ float fixed[128];
  extern __shared__ float dynamic[];
  out[blockIdx.x * blockDim.x + threadIdx.x] = isnan(fixed[threadIdx.x]) && isnan(dynamic[threadIdx.x]) ? 0.0f : 1.0f;
  fixed[threadIdx.x] = float(x[threadIdx.x]);
  __syncthreads();
  dynamic[threadIdx.x] = fixed[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  float v = dynamic[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, step);
  atomicAdd(&out[blockIdx.x * blockDim.x + threadIdx.x / 32 * 32], threadIdx.x % 32 == 0 ? v : 0.0f);
}

__global__ void null_pointer(float* out) { out[0] = 1.0f; }

__global__ void deadlock() {
  if (threadIdx.x < 40) __syncthreads();
  else __syncwarp();
}
