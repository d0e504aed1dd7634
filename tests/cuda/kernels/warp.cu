// One kernel for each warp function: a thread writes what it got.
#define FULL 0xFFFFFFFFu
#define ONE_WARP(name, expression) \
  extern "C" __global__ void name(int* out) { int lane = threadIdx.x; out[lane] = (expression); }

ONE_WARP(shfl, __shfl_sync(FULL, 100 + lane, (lane + 5) % 32))
ONE_WARP(shfl_wraps, __shfl_sync(FULL, 100 + lane, lane + 40))
ONE_WARP(shfl_width, __shfl_sync(FULL, 100 + lane, 3, 8))
ONE_WARP(shfl_up, __shfl_up_sync(FULL, 100 + lane, 3))
ONE_WARP(shfl_up_width, __shfl_up_sync(FULL, 100 + lane, 3, 8))
ONE_WARP(shfl_down, __shfl_down_sync(FULL, 100 + lane, 3))
ONE_WARP(shfl_down_width, __shfl_down_sync(FULL, 100 + lane, 3, 16))
ONE_WARP(shfl_xor, __shfl_xor_sync(FULL, 100 + lane, 5))
ONE_WARP(shfl_xor_width, __shfl_xor_sync(FULL, 100 + lane, 9, 8))
ONE_WARP(shfl_long, (int)(__shfl_sync(FULL, (long long)lane << 40, 7) >> 40))
ONE_WARP(shfl_double, (int)__shfl_xor_sync(FULL, lane + 0.5, 1))
ONE_WARP(any_one, __any_sync(FULL, lane == 9))
ONE_WARP(vote_any_none, __any_sync(FULL, lane > 31))
ONE_WARP(all_of_them, __all_sync(FULL, lane < 32))
ONE_WARP(vote_all_but_one, __all_sync(FULL, lane != 9))
ONE_WARP(ballot_of_thirds, (int)__ballot_sync(FULL, lane % 3 == 0))
ONE_WARP(match_any, (int)__match_any_sync(FULL, lane / 10))
extern "C" __global__ void match_all(int* out) {
  int equal, different;
  unsigned mask = __match_all_sync(FULL, 7, &equal);
  unsigned none = __match_all_sync(FULL, (int)threadIdx.x / 31, &different);
  out[threadIdx.x] = equal == 1 && different == 0 && none == 0 ? (int)mask : 0;
}

// Half of the warp votes, the other half shuffles: each with its own mask.
extern "C" __global__ void two_halves(int* out) {
  int lane = threadIdx.x;
  if (lane < 16)
    out[lane] = (int)__ballot_sync(0x0000FFFFu, lane % 2);
  else
    out[lane] = __shfl_xor_sync(0xFFFF0000u, lane, 1);
}

// Lanes that have returned are not waited for.
extern "C" __global__ void early_return(int* out) {
  if (threadIdx.x >= 8) return;
  out[threadIdx.x] = __popc(__ballot_sync(0x000000FFu, 1));
}

// What one lane writes before __syncwarp, another reads behind it.
extern "C" __global__ void through_shared(int* out) {
  __shared__ int s[32];
  s[threadIdx.x] = 2 * threadIdx.x;
  __syncwarp();
  int v = s[31 - threadIdx.x];
  __syncwarp();
  s[threadIdx.x] = v + 1;
  __syncwarp();
  out[threadIdx.x] = s[(threadIdx.x + 1) % 32];
}
