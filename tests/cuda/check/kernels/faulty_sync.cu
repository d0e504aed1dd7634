// Kernels whose threads don't meet as they should, on the line that ends in FAULT. Launches: ../check_corpus.py.

extern "C" __global__ void barrier_in_both_branches(int* out) {
  __shared__ int row[64];
  row[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 32)
    __syncthreads();  // OTHER
  else
    __syncthreads();  // FAULT
  out[threadIdx.x] = row[63 - threadIdx.x];
}

// Half of a warp skips a barrier.
extern "C" __global__ void barrier_in_if(int* out) {
  __shared__ int row[64];
  row[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 48) __syncthreads();  // OTHER
  row[threadIdx.x] += 1;
  __syncthreads();  // FAULT
  out[threadIdx.x] = row[threadIdx.x];
}

// The number of rounds depends on the thread.
extern "C" __global__ void barrier_in_loop(int* out, int n) {
  __shared__ int row[64];
  row[threadIdx.x] = 0;
  for (int i = threadIdx.x; i < n; i += 64) {
    row[threadIdx.x] += i;
    __syncthreads();  // OTHER
  }
  __syncthreads();  // FAULT
  out[threadIdx.x] = row[63 - threadIdx.x];
}

// Half of the warp, with a mask that names all of it; the other half waits at a barrier.
extern "C" __global__ void full_mask_in_branch(int* out) {
  int v = threadIdx.x;
  if (threadIdx.x < 16) v = __shfl_xor_sync(0xFFFFFFFFu, v, 1);  // FAULT
  __syncthreads();
  out[threadIdx.x] = v;
}

extern "C" __global__ void mask_without_caller(int* out) {
  out[threadIdx.x] = __shfl_xor_sync(0x0000FFFFu, (int)threadIdx.x, 1);  // FAULT
}

// Two functions, one mask.
extern "C" __global__ void mixed_warp_functions(int* out) {
  int v = threadIdx.x;
  if (v % 2)
    v = __shfl_sync(0xFFFFFFFFu, v, 0);  // FAULT
  else
    v = __any_sync(0xFFFFFFFFu, v > 3);
  out[threadIdx.x] = v;
}

extern "C" __global__ void syncwarp_in_branch(int* out) {
  __shared__ int row[32];
  row[threadIdx.x] = threadIdx.x;
  if (threadIdx.x % 2) __syncwarp();  // FAULT
  __syncthreads();  // OTHER
  out[threadIdx.x] = row[31 - threadIdx.x];
}

// Waits for a flag that nobody sets.
extern "C" __global__ void endless_wait(int* flag) {
  while (atomicAdd(flag, 0) == 0) {  // FAULT
  }
}

// i never grows.
extern "C" __global__ void endless_loop(float* out, int n) {
  int i = threadIdx.x;
  while (i < n) {
    out[i] += 1.0f;  // FAULT
  }
}

extern "C" __global__ void shuffle_width(int* out, int width) {
  out[threadIdx.x] = __shfl_down_sync(0xFFFFFFFFu, (int)threadIdx.x, 1, width);  // FAULT
}
