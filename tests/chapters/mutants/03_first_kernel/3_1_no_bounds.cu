// expects: out of bounds
// expects: x has 10 elements
// expects: `if (i < n)` missing?
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] *= factor;
}
