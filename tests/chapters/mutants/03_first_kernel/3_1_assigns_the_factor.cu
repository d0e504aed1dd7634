// expects: first difference at index 1: got 3.0, expected 6.0
// expects: x[i] *= factor
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = factor;
}
