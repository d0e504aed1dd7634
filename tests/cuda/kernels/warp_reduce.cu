// Whole-warp reductions in one instruction: since sm_80.
#if __CUDA_ARCH__ >= 800
#define FULL 0xFFFFFFFFu
#define ONE_WARP(name, expression) \
  extern "C" __global__ void name(int* out) { int lane = threadIdx.x; out[lane] = (expression); }

ONE_WARP(reduce_add, __reduce_add_sync(FULL, lane))
ONE_WARP(reduce_min, __reduce_min_sync(FULL, 5 - lane))
ONE_WARP(reduce_max, (int)__reduce_max_sync(FULL, (unsigned)(lane * 7 % 32)))
ONE_WARP(reduce_and, (int)__reduce_and_sync(FULL, 0xF0u | (unsigned)lane))
ONE_WARP(reduce_or, (int)__reduce_or_sync(FULL, 1u << lane / 8))
ONE_WARP(reduce_xor, (int)__reduce_xor_sync(FULL, (unsigned)lane * 3))
#endif
