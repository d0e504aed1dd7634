// Promoted from solutions/04_rms_norm.md: edit it there, then `make build`.
// RMSNorm: out[t, i] = x[t, i] / sqrt(mean(x[t]^2) + eps) * weight[i], a row t a block (Zhang and Sennrich 2019).
//
// Each thread adds up the squares of its part of the row, block_sum adds up the threads, and each thread writes its
// part. Sums are float; the normalised value is rounded to scalar_t before the weight, as the reference does.
// In shared memory: one float a warp. The floor is 2 x T x hidden_size elements: x once in, out once out.

constexpr int PER_LOAD = 16 / sizeof(scalar_t);  // elements in 16 bytes, the widest load of a thread

struct alignas(16) Vector {
    scalar_t of[PER_LOAD];
};

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
    return warp_sum(lane < blockDim.x / 32 ? of_warp[lane] : 0.0f);
}

// Any hidden_size, any alignment: a thread takes elements t, t + blockDim.x, ... of its row, and reads them twice.
__global__ void rms_norm(scalar_t* out, const scalar_t* x, const scalar_t* weight, int hidden_size, float eps) {
    const scalar_t* row = x + (size_t)blockIdx.x * hidden_size;
    scalar_t* out_row = out + (size_t)blockIdx.x * hidden_size;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
        float v = float(row[i]);
        sum += v * v;
    }
    float scale = rsqrtf(block_sum(sum) / hidden_size + eps);
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
        scalar_t normed = scalar_t(float(row[i]) * scale);
        out_row[i] = scalar_t(float(normed) * float(weight[i]));
    }
}

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
    for (int i = t + blockDim.x; i < n; i += blockDim.x) sum += squares(row[i]);
    float scale = rsqrtf(block_sum(sum) / hidden_size + eps);

    if (t < n) out_row[t] = scaled(first, first_weight, scale);
    for (int i = t + blockDim.x; i < n; i += blockDim.x) out_row[i] = scaled(row[i], weights[i], scale);
}
