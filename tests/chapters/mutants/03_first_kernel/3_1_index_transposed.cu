// expects: first difference at index 1: got 2.0, expected 6.0
__global__ void scale(float* x, float factor, int n) {
    int i = threadIdx.x * blockDim.x + blockIdx.x;
    if (i < n) x[i] *= factor;
}
