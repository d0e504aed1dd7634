// Promoted from solutions/04_rms_norm.md: edit it there, then `make build`.
// RMSNorm, the steps on the way to rms_norm.cu: one thread a row, then two trees in shared memory.
// The engine uses none of them; chapter 04 and `tinyvllm bench rms_norm` compare them.
//
// In all of them: out, x [T, hidden_size], weight [hidden_size], sums in float. 2 x T x hidden_size
// elements must move: each of x once in, each of out once out.

// The squares of elements first, first + step, ... of a row, added up.
__device__ float part_of_squares(const scalar_t* row, int hidden_size, int first, int step) {
    float sum = 0.0f;
    for (int i = first; i < hidden_size; i += step) {
        float v = float(row[i]);
        sum += v * v;
    }
    return sum;
}

// Writes elements first, first + step, ... of a row. Rounded to scalar_t before the weight, as the reference does.
__device__ void write_part(scalar_t* out, const scalar_t* row, const scalar_t* weight, float scale,
                           int hidden_size, int first, int step) {
    for (int i = first; i < hidden_size; i += step) {
        scalar_t normed = scalar_t(float(row[i]) * scale);
        out[i] = scalar_t(float(normed) * float(weight[i]));
    }
}

// A thread does a whole row. Any block.
__global__ void rms_norm_serial(scalar_t* out, const scalar_t* x, const scalar_t* weight, int hidden_size,
                                float eps, int num_tokens) {
    int token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= num_tokens) return;
    size_t begin = (size_t)token * hidden_size;
    float sum = part_of_squares(x + begin, hidden_size, 0, 1);
    float scale = rsqrtf(sum / hidden_size + eps);  // 1 / sqrt
    write_part(out + begin, x + begin, weight, scale, hidden_size, 0, 1);
}

// A block does a row. A tree in shared memory, whose threads are found by modulo. Block: a power of two, at most 1024.
__global__ void rms_norm_modulo(scalar_t* out, const scalar_t* x, const scalar_t* weight, int hidden_size,
                                float eps) {
    __shared__ float scratch[1024];
    size_t begin = (size_t)blockIdx.x * hidden_size;
    int t = threadIdx.x;
    scratch[t] = part_of_squares(x + begin, hidden_size, t, blockDim.x);
    __syncthreads();
    for (int stride = 1; stride < blockDim.x; stride *= 2) {
        if (t % (2 * stride) == 0)
            scratch[t] += scratch[t + stride];
        __syncthreads();
    }
    float scale = rsqrtf(scratch[0] / hidden_size + eps);
    write_part(out + begin, x + begin, weight, scale, hidden_size, t, blockDim.x);
}

// A block does a row. A tree in shared memory: the first half of the threads adds the second half.
// Block: a power of two, at most 1024.
__global__ void rms_norm_tree(scalar_t* out, const scalar_t* x, const scalar_t* weight, int hidden_size, float eps) {
    __shared__ float scratch[1024];
    size_t begin = (size_t)blockIdx.x * hidden_size;
    int t = threadIdx.x;
    scratch[t] = part_of_squares(x + begin, hidden_size, t, blockDim.x);
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half)
            scratch[t] += scratch[t + half];
        __syncthreads();
    }
    float scale = rsqrtf(scratch[0] / hidden_size + eps);
    write_part(out + begin, x + begin, weight, scale, hidden_size, t, blockDim.x);
}
