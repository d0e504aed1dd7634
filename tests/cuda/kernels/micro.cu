// What the emulator's benchmark times: nothing but barriers, nothing but shuffles, nothing at all.
extern "C" __global__ void barriers(float* out, int n) {
  for (int i = 0; i < n; i++) __syncthreads();
  if (threadIdx.x == 0) out[0] = n;
}

extern "C" __global__ void shuffles(float* out, int n) {
  float v = threadIdx.x;
  for (int i = 0; i < n; i++) v += __shfl_xor_sync(0xFFFFFFFFu, v, 1);
  if (threadIdx.x == 0) out[0] = v;
}

extern "C" __global__ void nothing() {}
