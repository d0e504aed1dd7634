// expects: the row of id -1
// expects: was never written
__global__ void embedding(scalar_t* __restrict__ out, const long long* __restrict__ token_ids,
                          const scalar_t* __restrict__ weight, int hidden_size, int vocab_size) {
    long long row = token_ids[blockIdx.x];
    bool known = row >= 0 && row < vocab_size;
    long long first = (long long)blockIdx.x * hidden_size;
    if (!known) return;
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) out[first + i] = weight[row * hidden_size + i];
}
