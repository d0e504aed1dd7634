// expects: it asks too much of the memory
// expects: side by side
__global__ void embedding(scalar_t* __restrict__ out, const long long* __restrict__ token_ids,
                          const scalar_t* __restrict__ weight, int hidden_size, int vocab_size) {
    long long row = token_ids[blockIdx.x];
    bool known = row >= 0 && row < vocab_size;
    long long first = (long long)blockIdx.x * hidden_size;
    int share = (hidden_size + blockDim.x - 1) / blockDim.x;
    for (int i = threadIdx.x * share; i < (threadIdx.x + 1) * share && i < hidden_size; i++) {
        out[first + i] = known ? weight[row * hidden_size + i] : scalar_t(NAN);
    }
}
