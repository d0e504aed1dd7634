// Promoted from solutions/03_first_kernel.md: edit it there, then `make build`.
// Embedding lookup: out[t] = weight[token_ids[t]], a row copied for each of T tokens.
//
// A block copies the row of one token (the grid is T blocks); its threads take neighbouring elements
// and go on by a whole block, so any number of threads fits any row. Nothing is shared.
// Bytes: 8 of token id, a row read, a row written; no arithmetic.
// An id that the table doesn't have gives a row of NaN: a kernel can't raise, and must not read there.

__global__ void embedding(scalar_t* __restrict__ out,               // [T, hidden_size]
                          const long long* __restrict__ token_ids,  // [T]
                          const scalar_t* __restrict__ weight,      // [vocab_size, hidden_size]
                          int hidden_size, int vocab_size) {
    long long row = token_ids[blockIdx.x];
    bool known = row >= 0 && row < vocab_size;
    long long first = (long long)blockIdx.x * hidden_size;  // a batch may hold more than 2^31 numbers
    for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
        out[first + i] = known ? weight[row * hidden_size + i] : scalar_t(NAN);
    }
}

// The same in pieces of 16 bytes, for rows that are a whole number of them and begin at a multiple
// of 16. Bits of ones are NaN in each of the formats.
__global__ void embedding_wide(uint4* __restrict__ out,                  // [T, row_pieces]
                               const long long* __restrict__ token_ids,  // [T]
                               const uint4* __restrict__ weight,         // [vocab_size, row_pieces]
                               int row_pieces, int vocab_size) {
    long long row = token_ids[blockIdx.x];
    bool known = row >= 0 && row < vocab_size;
    long long first = (long long)blockIdx.x * row_pieces;
    for (int i = threadIdx.x; i < row_pieces; i += blockDim.x) {
        out[first + i] = known ? weight[row * row_pieces + i] : make_uint4(~0u, ~0u, ~0u, ~0u);
    }
}
