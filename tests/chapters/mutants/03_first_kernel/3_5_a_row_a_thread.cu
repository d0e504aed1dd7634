// expects: requests to write
__global__ void embedding_wide(uint4* __restrict__ out, const long long* __restrict__ token_ids,
                               const uint4* __restrict__ weight, int row_pieces, int vocab_size) {
    long long row = token_ids[blockIdx.x];
    bool known = row >= 0 && row < vocab_size;
    long long first = (long long)blockIdx.x * row_pieces;
    if (threadIdx.x > 0) return;
    for (int i = 0; i < row_pieces; i++) out[first + i] = known ? weight[row * row_pieces + i] : make_uint4(~0u, ~0u, ~0u, ~0u);
}
