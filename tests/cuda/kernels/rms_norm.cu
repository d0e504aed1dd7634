// RMSNorm: out[row, i] = x[row, i] / sqrt(mean(x[row]^2) + eps) * weight[i], summed in float.
// A block does one row. Its threads add up squares, warps by shuffles, the block through shared memory.
__device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, offset);
  return v;
}

extern "C" __global__ void rms_norm(scalar_t* __restrict__ out, const scalar_t* __restrict__ x,
                                    const scalar_t* __restrict__ weight, int hidden_size, float eps) {
  __shared__ float partial[32];
  const scalar_t* row = x + (size_t)blockIdx.x * hidden_size;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
    float v = float(row[i]);
    sum += v * v;
  }
  sum = warp_sum(sum);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  int num_warps = (blockDim.x + 31) / 32;
  sum = warp_sum(lane < num_warps ? partial[lane] : 0.0f);
  float scale = rsqrtf(sum / hidden_size + eps);
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x)
    out[(size_t)blockIdx.x * hidden_size + i] = scalar_t(float(row[i]) * scale * float(weight[i]));
}
