// expects: data race
__global__ void scale(float* x, float factor, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] *= factor;
}
