// Decode attention over a paged KV cache. Grid (num_heads, num_seqs); a block serves one head of one sequence.
// Each warp takes every num_warps-th token, keeps its own running maximum and sum (online softmax), and the block
// combines them at the end. Lanes hold HEAD_DIM / 32 elements each.
#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#define PER_LANE (HEAD_DIM / 32)

extern "C" __global__ void paged_attention(scalar_t* out,             // [num_seqs, num_heads, HEAD_DIM]
                                           const scalar_t* q,         // [num_seqs, num_heads, HEAD_DIM]
                                           const scalar_t* k_cache,   // [num_blocks, block_size, num_kv_heads, HEAD_DIM]
                                           const scalar_t* v_cache,   // the same
                                           const int* block_tables,   // [num_seqs, max_blocks]
                                           const int* seq_lens,       // [num_seqs]
                                           int num_kv_heads, int block_size, int max_blocks, float scale) {
  extern __shared__ float shared[];  // [num_warps, HEAD_DIM + 2]
  int head = blockIdx.x, seq = blockIdx.y, num_heads = gridDim.x;
  int kv_head = head / (num_heads / num_kv_heads);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, num_warps = blockDim.x / 32;
  const scalar_t* query = q + ((size_t)seq * num_heads + head) * HEAD_DIM;
  float mine[PER_LANE], total[PER_LANE];
  for (int i = 0; i < PER_LANE; i++) mine[i] = float(query[lane + 32 * i]) * scale, total[i] = 0.0f;

  float highest = -INFINITY, sum = 0.0f;
  for (int token = warp; token < seq_lens[seq]; token += num_warps) {
    int block = block_tables[seq * max_blocks + token / block_size];
    size_t at = (((size_t)block * block_size + token % block_size) * num_kv_heads + kv_head) * HEAD_DIM;
    float score = 0.0f;
    for (int i = 0; i < PER_LANE; i++) score += mine[i] * float(k_cache[at + lane + 32 * i]);
    for (int offset = 16; offset > 0; offset /= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, offset);
    float next = fmaxf(highest, score), keep = __expf(highest - next), weight = __expf(score - next);
    sum = sum * keep + weight;
    for (int i = 0; i < PER_LANE; i++) total[i] = total[i] * keep + weight * float(v_cache[at + lane + 32 * i]);
    highest = next;
  }

  float* row = shared + warp * (HEAD_DIM + 2);
  for (int i = 0; i < PER_LANE; i++) row[lane + 32 * i] = total[i];
  if (lane == 0) row[HEAD_DIM] = highest, row[HEAD_DIM + 1] = sum;
  __syncthreads();
  for (int d = threadIdx.x; d < HEAD_DIM; d += blockDim.x) {
    float top = -INFINITY, value = 0.0f, weights = 0.0f;
    for (int w = 0; w < num_warps; w++) top = fmaxf(top, shared[w * (HEAD_DIM + 2) + HEAD_DIM]);
    for (int w = 0; w < num_warps; w++) {
      const float* other = shared + w * (HEAD_DIM + 2);
      float factor = other[HEAD_DIM] == -INFINITY ? 0.0f : __expf(other[HEAD_DIM] - top);
      value += other[d] * factor;
      weights += other[HEAD_DIM + 1] * factor;
    }
    out[((size_t)seq * num_heads + head) * HEAD_DIM + d] = scalar_t(weights > 0.0f ? value / weights : 0.0f);
  }
}
