// expects: requests of rms_norm_wide
%%cuda --scalar bf16 rms_norm_wide
//| exercise 4.5 points=4
//| promote kernels/rms_norm.cu
// For a hidden_size that is a multiple of PER_LOAD, and arrays that begin at multiples of 16 bytes: all loads and stores
// are of 16 bytes. A thread keeps its first vector in registers, so a row of up to blockDim.x vectors is read once.
__device__ float squares(const Vector& v) {
    float sum = 0.0f;
    for (int k = 0; k < PER_LOAD; k++) sum += float(v.of[k]) * float(v.of[k]);
    return sum;
}

__device__ Vector scaled(const Vector& v, const Vector& weight, float scale) {
    Vector result;
    for (int k = 0; k < PER_LOAD; k++) {
        scalar_t normed = scalar_t(float(v.of[k]) * scale);
        result.of[k] = scalar_t(float(normed) * float(weight.of[k]));
    }
    return result;
}

__global__ void __launch_bounds__(1024) rms_norm_wide(scalar_t* out, const scalar_t* x, const scalar_t* weight,
                                                      int hidden_size, float eps) {
    const scalar_t* row = x + (size_t)blockIdx.x * hidden_size;
    scalar_t* out_row = out + (size_t)blockIdx.x * hidden_size;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) sum += float(row[i]) * float(row[i]);
    float scale = rsqrtf(block_sum(sum) / hidden_size + eps);
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
        scalar_t normed = scalar_t(float(row[i]) * scale);
        out_row[i] = scalar_t(float(normed) * float(weight[i]));
    }
}
