// y[t][r] = sum over c of x[t][c] * w[r][c]: a linear layer for few tokens, on a CPU.
//
// With few tokens, the time is that of reading w. Its values are bfloat16 in memory, half the bytes
// of float, and become floats in a register, exactly: sixteen zero bits below. Sums are in float.
// A thread takes a band of rows and walks through it row by row, in the order in which it lies in
// memory: the processor's own prefetching follows one stream, and loses four.
#include <stdint.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif

typedef float Floats __attribute__((vector_size(LANES * 4)));
typedef uint32_t Words __attribute__((vector_size(LANES * 4)));
typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));

static inline Floats load(const float* p) {
    Floats v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

static inline Floats widen(const uint16_t* p) {
    Halves bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return (Floats)(__builtin_convertvector(bits, Words) << 16);
}

static inline float widen1(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
}

// One row of w times TOKENS tokens. The sums stay in registers, 8 vectors of them in any case: that
// many are needed to keep the adders busy. w is asked for AHEAD of its use, into the next rows.
template <int TOKENS>
static void row(const uint16_t* w, const float* x, float* y, long rows, long columns) {
    constexpr int UNROLL = 8 / TOKENS;
    constexpr long STEP = UNROLL * LANES, AHEAD = 4096;
    Floats sums[UNROLL][TOKENS] = {};
    long c = 0;
    for (; c + STEP <= columns; c += STEP) {
        for (int u = 0; u < UNROLL; u++) {
            if (u * LANES % 32 == 0) __builtin_prefetch(w + c + u * LANES + AHEAD);  // a line of 64 bytes
            Floats wide = widen(w + c + u * LANES);
            for (int t = 0; t < TOKENS; t++)
                sums[u][t] += wide * load(x + t * columns + c + u * LANES);
        }
    }
    for (int t = 0; t < TOKENS; t++) {
        for (int u = 1; u < UNROLL; u++) sums[0][t] += sums[u][t];
        float sum = 0;
        for (int i = 0; i < LANES; i++) sum += sums[0][t][i];
        for (long k = c; k < columns; k++) sum += widen1(w[k]) * x[t * columns + k];
        y[t * rows] = sum;
    }
}

// w [rows][columns] bfloat16 bits, x [tokens][columns], y [tokens][rows].
extern "C" void linear_bf16(const uint16_t* w, const float* x, float* y, long rows, long columns,
                            long tokens, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long r = 0; r < rows; r++) {
        const uint16_t* w_row = w + r * columns;
        long t = 0;
        for (; t + 8 <= tokens; t += 8) row<8>(w_row, x + t * columns, y + t * rows + r, rows, columns);
        for (; t + 4 <= tokens; t += 4) row<4>(w_row, x + t * columns, y + t * rows + r, rows, columns);
        for (; t + 2 <= tokens; t += 2) row<2>(w_row, x + t * columns, y + t * rows + r, rows, columns);
        for (; t < tokens; t++) row<1>(w_row, x + t * columns, y + t * rows + r, rows, columns);
    }
}
