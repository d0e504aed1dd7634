// expects: out of bounds
// expects: weight
__global__ void embedding(scalar_t* __restrict__ out, const long long* __restrict__ token_ids,
                          const scalar_t* __restrict__ weight, int hidden_size, int vocab_size) {
    long long row = token_ids[blockIdx.x];
    bool known = row >= 0 && row <= vocab_size;
    long long first = (long long)blockIdx.x * hidden_size;
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) out[first + i] = known ? weight[row * hidden_size + i] : scalar_t(NAN);
}
