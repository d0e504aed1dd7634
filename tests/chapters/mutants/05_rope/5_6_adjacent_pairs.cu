// expects: adjacent pairs (2i, 2i + 1)
extern "C" __global__ void rope(scalar_t* q_out, scalar_t* k_out, const scalar_t* q, const scalar_t* k,
                                const long long* positions, const float* cos_sin, int num_heads,
                                int num_kv_heads, int head_dim) {
    size_t token = blockIdx.x;
    int half = head_dim / 2, q_pairs = num_heads * half, k_pairs = num_kv_heads * half;
    const float* cosines = cos_sin + positions[token] * head_dim;
    const float* sines = cosines + half;
    for (int i = threadIdx.x; i < q_pairs + k_pairs; i += blockDim.x) {
        bool is_q = i < q_pairs;
        int mine = is_q ? i : i - q_pairs;  // of the pairs of q, or of those of k
        int pair = mine % half;
        size_t at = (token * (is_q ? num_heads : num_kv_heads) + mine / half) * head_dim + 2 * pair;
        const scalar_t* in = is_q ? q : k;
        scalar_t* out = is_q ? q_out : k_out;
        float x1 = float(in[at]), x2 = float(in[at + 1]);
        float cosine = cosines[pair], sine = sines[pair];
        out[at] = scalar_t(x1 * cosine - x2 * sine);
        out[at + 1] = scalar_t(x2 * cosine + x1 * sine);
    }
}
