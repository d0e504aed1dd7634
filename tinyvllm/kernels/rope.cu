// Promoted from solutions/05_rope.md: edit it there, then `make build`.
// RoPE: turns every pair (i, i + head_dim/2) of every head of q and k by the angle of its token's position.
//
// A block does one token, a thread one pair after another; nothing is shared. The pairs of a token are numbered
// through, those of q first. It must move q and k once in and once out, and a row of the table for each token:
// T * ((num_heads + num_kv_heads) * head_dim * 2 * sizeof(scalar_t) + head_dim * 4 + 8) bytes.
//
// positions [T], q and q_out [T, num_heads, head_dim], k and k_out [T, num_kv_heads, head_dim],
// cos_sin [max_len, head_dim]: of each position first the cosines, then the sines.

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
        size_t at = (token * (is_q ? num_heads : num_kv_heads) + mine / half) * head_dim + pair;
        const scalar_t* in = is_q ? q : k;
        scalar_t* out = is_q ? q_out : k_out;
        float x1 = float(in[at]), x2 = float(in[at + half]);
        float cosine = cosines[pair], sine = sines[pair];
        out[at] = scalar_t(x1 * cosine - x2 * sine);
        out[at + half] = scalar_t(x2 * cosine + x1 * sine);
    }
}

// The same, with WIDE pairs at once in accesses of 16 bytes. head_dim / 2 must be a multiple of WIDE, and all
// arrays must begin at a multiple of 16 bytes.
constexpr int WIDE = 16 / sizeof(scalar_t);
struct alignas(16) Piece {
    scalar_t x[WIDE];
};

extern "C" __global__ void rope_wide(scalar_t* q_out, scalar_t* k_out, const scalar_t* q, const scalar_t* k,
                                     const long long* positions, const float* cos_sin, int num_heads,
                                     int num_kv_heads, int head_dim) {
    size_t token = blockIdx.x;
    int half = head_dim / 2, pieces = half / WIDE;  // pieces of half a head
    int q_pieces = num_heads * pieces, k_pieces = num_kv_heads * pieces;
    const float* row = cos_sin + positions[token] * head_dim;
    for (int i = threadIdx.x; i < q_pieces + k_pieces; i += blockDim.x) {
        bool is_q = i < q_pieces;
        int mine = is_q ? i : i - q_pieces;
        int pair = mine % pieces * WIDE;  // the first of this thread's WIDE pairs
        size_t at = (token * (is_q ? num_heads : num_kv_heads) + mine / pieces) * head_dim + pair;
        const scalar_t* in = is_q ? q : k;
        scalar_t* out = is_q ? q_out : k_out;
        Piece x1 = *(const Piece*)(in + at), x2 = *(const Piece*)(in + at + half);
        for (int j = 0; j < WIDE; j += 4) {
            float4 cosines = *(const float4*)(row + pair + j), sines = *(const float4*)(row + half + pair + j);
            const float c[4] = {cosines.x, cosines.y, cosines.z, cosines.w};
            const float s[4] = {sines.x, sines.y, sines.z, sines.w};
            for (int l = 0; l < 4; l++) {
                float a = float(x1.x[j + l]), b = float(x2.x[j + l]);
                x1.x[j + l] = scalar_t(a * c[l] - b * s[l]);
                x2.x[j + l] = scalar_t(b * c[l] + a * s[l]);
            }
        }
        *(Piece*)(out + at) = x1;
        *(Piece*)(out + at + half) = x2;
    }
}
