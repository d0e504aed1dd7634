// expects: the row of id -1
// expects: got 0.0, expected nan
__global__ void embedding_wide(uint4* __restrict__ out, const long long* __restrict__ token_ids,
                               const uint4* __restrict__ weight, int row_pieces, int vocab_size) {
    long long row = token_ids[blockIdx.x];
    bool known = row >= 0 && row < vocab_size;
    long long first = (long long)blockIdx.x * row_pieces;
    for (int i = threadIdx.x; i < row_pieces; i += blockDim.x) out[first + i] = known ? weight[row * row_pieces + i] : make_uint4(0, 0, 0, 0);
}
