// expects: requests to write
// expects: assign a whole uint4
__global__ void embedding_wide(uint4* __restrict__ out, const long long* __restrict__ token_ids,
                               const uint4* __restrict__ weight, int row_pieces, int vocab_size) {
    long long row = token_ids[blockIdx.x];
    bool known = row >= 0 && row < vocab_size;
    const unsigned* from = (const unsigned*)(weight + row * row_pieces);
    unsigned* to = (unsigned*)(out + (long long)blockIdx.x * row_pieces);
    for (int i = threadIdx.x; i < row_pieces * 4; i += blockDim.x) to[i] = known ? from[i] : ~0u;
}
