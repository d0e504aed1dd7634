// expects: first difference at index 0: got 4.0, expected 3.0
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += factor;
}
