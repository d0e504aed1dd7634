// expects: data race
%%cuda --scalar bf16 layer_norm
//| exercise 4.6 points=2
// __global__ void layer_norm(scalar_t* out, const scalar_t* x, int hidden_size, float eps)
__device__ float sum_of_block(float v) {
    __shared__ float of_warp[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(0xFFFFFFFF, v, distance);
    __syncthreads();  // everybody has read the sums of the call before
    if (lane == 0) of_warp[warp] = v;
    v = lane < blockDim.x / 32 ? of_warp[lane] : 0.0f;
    for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(0xFFFFFFFF, v, distance);
    return v;
}

__global__ void layer_norm(scalar_t* out, const scalar_t* x, int hidden_size, float eps) {
    const scalar_t* row = x + (size_t)blockIdx.x * hidden_size;
    scalar_t* out_row = out + (size_t)blockIdx.x * hidden_size;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) sum += float(row[i]);
    float mean = sum_of_block(sum) / hidden_size;
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
        float distance = float(row[i]) - mean;
        squares += distance * distance;
    }
    float scale = rsqrtf(sum_of_block(squares) / hidden_size + eps);
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) out_row[i] = scalar_t((float(row[i]) - mean) * scale);
}
