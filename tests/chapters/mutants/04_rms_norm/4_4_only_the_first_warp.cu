// expects: block_sum in each of 64 threads
%%cuda --scalar bf16
//| exercise 4.4 points=4
//| promote kernels/rms_norm.cu
// The sum of v over the 32 lanes of a warp, in every lane. All lanes must call it.
__device__ float warp_sum(float v) {
    for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(0xFFFFFFFF, v, distance);
    return v;
}

// The sum of v over the block, in every thread. All threads must call it, once a kernel: its shared array isn't free
// again before the next barrier. Block: a multiple of 32 threads, at most 1024. One barrier.
__device__ float block_sum(float v) {
    __shared__ float of_warp[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    v = warp_sum(v);
    if (lane == 0) of_warp[warp] = v;
    __syncthreads();
    if (warp == 0) v = warp_sum(lane < blockDim.x / 32 ? of_warp[lane] : 0.0f);
    return v;
}
