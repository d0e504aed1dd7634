// expects: first difference at index 7: got 8.0, expected 24.0
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) x[i] *= factor;
}
