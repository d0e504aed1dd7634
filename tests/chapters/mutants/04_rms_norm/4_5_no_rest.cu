// expects: the vectors t + blockDim.x
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
    int n = hidden_size / PER_LOAD, t = threadIdx.x;
    const Vector* row = (const Vector*)x + (size_t)blockIdx.x * n;
    const Vector* weights = (const Vector*)weight;
    Vector* out_row = (Vector*)out + (size_t)blockIdx.x * n;

    Vector first = {}, first_weight = {};  // zeros add nothing to the sum
    if (t < n) {
        first = row[t];
        first_weight = weights[t];  // under way while the block adds up
    }
    float sum = squares(first);
    float scale = rsqrtf(block_sum(sum) / hidden_size + eps);

    if (t < n) out_row[t] = scaled(first, first_weight, scale);
}
