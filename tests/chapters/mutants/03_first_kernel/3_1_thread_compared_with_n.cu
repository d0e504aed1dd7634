// expects: out of bounds
// expects: x has 10 elements
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < n) x[i] *= factor;
}
