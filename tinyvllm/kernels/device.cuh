// The one place for instructions that only a GPU has: PTX there, plain C++ with the same meaning in the emulator.
//
//   mma_m16n8k16<T>(d, a, b, c)     tensor cores: D[16, 8] = A[16, 16] @ B[16, 8] + C[16, 8], T = __nv_bfloat16 or __half, by a warp
//   load_matrix_x4(r, row)          ldmatrix: four 8 x 8 matrices of 16-bit elements from shared memory into fragments
//   load_matrix_x4_transposed(r, row)
//   copy_async(shared, global)      cp.async: 16 bytes to shared memory without passing through registers
//   copy_async_commit()             closes a group of copies
//   copy_async_wait<n>()            waits until at most the n newest groups are under way
//   load_streaming(p)               a load that leaves no trace in L1: for data that is read once
//   store_streaming(p, v)           likewise, a store
//
// PTX ISA 8.x, "Matrix Fragments for mma.m16n8k16", "cp.async", "ldmatrix", "ld.global.nc".
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Fragments, as PTX defines them, with group = lane / 4 and t = lane % 4; every register of a and b holds two elements,
// the one with the lower k in the lower half:
//   a[0] = A[group][2t, 2t+1]      a[1] = A[group + 8][2t, 2t+1]      a[2], a[3] = the same, k + 8
//   b[0] = B[2t, 2t+1][group]      b[1] = B[2t + 8, 2t + 9][group]
//   c[0], c[1] = C[group][2t, 2t+1]      c[2], c[3] = C[group + 8][2t, 2t+1]
// All 32 lanes of a warp must call it together. bf16 needs sm_80; half runs on sm_75 as two steps of k = 8.

#ifdef TINYVLLM_EMULATOR

namespace emu {

struct Mma {
  float d[4];
  const unsigned* a;
  const unsigned* b;
  const float* c;
};

template <class T>
EMU_OWN float half_of(unsigned pair, int which) {
  T v;
  v.bits = (unsigned short)(pair >> 16 * which);
  return float(v);
}

// Products of 16-bit numbers are exact in float; the sum of 17 terms is rounded once, from double. A GPU cuts its
// partial sums differently: agreement is to about 2^-22 of the largest term.
template <class T>
EMU_OWN void multiply_fragments(void** lanes) {
  float A[16][16], B[16][8];
  for (int l = 0; l < 32; l++) {
    const Mma* m = (const Mma*)lanes[l];
    int group = l / 4, t = l % 4;
    for (int r = 0; r < 4; r++)
      for (int h = 0; h < 2; h++) A[group + 8 * (r % 2)][2 * t + 8 * (r / 2) + h] = half_of<T>(m->a[r], h);
    for (int r = 0; r < 2; r++)
      for (int h = 0; h < 2; h++) B[2 * t + 8 * r + h][group] = half_of<T>(m->b[r], h);
  }
  for (int l = 0; l < 32; l++) {
    Mma* m = (Mma*)lanes[l];
    int group = l / 4, t = l % 4;
    for (int r = 0; r < 4; r++) {
      double sum = m->c[r];
      for (int k = 0; k < 16; k++) sum += (double)A[group + 8 * (r / 2)][k] * B[k][2 * t + r % 2];
      m->d[r] = (float)sum;
    }
  }
}
template <class T>
void mma_finisher(void** lanes, unsigned) {
  multiply_fragments<T>(lanes);
}

struct MatrixRows {
  const unsigned short* row;  // lane l brings row l % 8 of matrix l / 8
  unsigned r[4];
};

template <bool transposed>
EMU_OWN void spread_matrices(void** lanes) {
  for (int l = 0; l < 32; l++)
    for (int m = 0; m < 4; m++) {
      unsigned pair[2];
      for (int h = 0; h < 2; h++) {
        int row = l / 4, column = l % 4 * 2 + h;
        pair[h] = transposed ? ((MatrixRows*)lanes[8 * m + column])->row[row] : ((MatrixRows*)lanes[8 * m + row])->row[column];
      }
      ((MatrixRows*)lanes[l])->r[m] = pair[0] | pair[1] << 16;
    }
}
template <bool transposed>
void matrix_finisher(void** lanes, unsigned) {
  spread_matrices<transposed>(lanes);
}

EMU_OWN void full_warp(const char* what, int line, const char* file) {
  const Thread* t = self();
  if (t->block->num_threads < (t->index / warp_lanes + 1) * warp_lanes)
    emu_fail(fault_warp, file, line, 0, 0, "%s needs all 32 lanes of the warp; this warp has %u threads", what,
             t->block->num_threads % warp_lanes);
}

template <bool transposed>
EMU_OWN void load_matrices(unsigned (&r)[4], const void* row, const char* what, int line, const char* file) {
  full_warp(what, line, file);
  if ((uintptr_t)row % 16) emu_fail(fault_memory, file, line, 0, 0, "%s: a row must begin at a multiple of 16 bytes", what);
  EMU_HOOK(row, 16, access_read);
  MatrixRows rows = {(const unsigned short*)row, {}};
  emu_warp_meet(0xFFFFFFFFu, &rows, matrix_finisher<transposed>, what, file, line);
  for (int m = 0; m < 4; m++) r[m] = rows.r[m];
}

}  // namespace emu

template <class T>
EMU_OWN void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4], EMU_SITE) {
  emu::full_warp("mma_m16n8k16", line, file);
  emu::Mma m = {{}, a, b, c};
  emu_warp_meet(0xFFFFFFFFu, &m, emu::mma_finisher<T>, "mma_m16n8k16", file, line);
  for (int r = 0; r < 4; r++) d[r] = m.d[r];
}

EMU_OWN void load_matrix_x4(unsigned (&r)[4], const void* row, EMU_SITE) {
  emu::load_matrices<false>(r, row, "load_matrix_x4", line, file);
}
EMU_OWN void load_matrix_x4_transposed(unsigned (&r)[4], const void* row, EMU_SITE) {
  emu::load_matrices<true>(r, row, "load_matrix_x4_transposed", line, file);
}

// The copy is made when it is waited for, so a kernel that forgets to wait reads what was there before.
EMU_OWN void copy_async(void* shared, const void* global, bool valid = true, EMU_SITE) {
  if (((uintptr_t)shared | (uintptr_t)global) % 16)
    emu_fail(emu::fault_memory, file, line, 0, 0, "copy_async: both addresses must be multiples of 16 bytes");
  if (valid) EMU_HOOK(global, 16, emu::access_read);
  emu_copy_async(shared, global, 16, valid ? 16 : 0, file, line);
}
EMU_ALWAYS void copy_async_commit() { emu_copy_commit(); }
template <int groups>
EMU_ALWAYS void copy_async_wait() {
  emu_copy_wait(groups);
}

template <class T>
EMU_OWN T load_streaming(const T* p, EMU_SITE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "load_streaming loads 4, 8 or 16 bytes");
  EMU_HOOK(p, sizeof(T), emu::access_read);
  return *p;
}
template <class T>
EMU_OWN void store_streaming(T* p, T value, EMU_SITE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "store_streaming stores 4, 8 or 16 bytes");
  EMU_HOOK(p, sizeof(T), emu::access_write);
  *p = value;
}

#else  // a GPU

template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                             const float (&c)[4]);

template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&d)[4], const unsigned (&a)[4],
                                                            const unsigned (&b)[2], const float (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#else
  __trap();  // tensor cores know bf16 since sm_80
#endif
}

template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                     const float (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#else
  asm volatile(
      "{\n"
      ".reg .f32 t0, t1, t2, t3;\n"
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {t0, t1, t2, t3}, {%4, %5}, {%8}, {%10, %11, %12, %13};\n"
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%6, %7}, {%9}, {t0, t1, t2, t3};\n"
      "}"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#endif
}

__device__ __forceinline__ void load_matrix_x4(unsigned (&r)[4], const void* row) {
  unsigned address = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrix_x4_transposed(unsigned (&r)[4], const void* row) {
  unsigned address = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Where `valid` is false nothing is read and 16 zero bytes are written. Before sm_80 it is an ordinary copy.
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool valid = true) {
#if __CUDA_ARCH__ >= 800
  unsigned address = (unsigned)__cvta_generic_to_shared(shared);
  int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(__cvta_generic_to_global(global)), "r"(bytes)
               : "memory");
#else
  *(uint4*)shared = valid ? *(const uint4*)global : make_uint4(0, 0, 0, 0);
#endif
}
__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int groups>
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

template <class T>
__device__ __forceinline__ T load_streaming(const T* p) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "load_streaming loads 4, 8 or 16 bytes");
  unsigned v[sizeof(T) / 4];
  size_t address = __cvta_generic_to_global(p);
  if constexpr (sizeof(T) == 16)
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "l"(address));
  else if constexpr (sizeof(T) == 8)
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "l"(address));
  else
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v[0]) : "l"(address));
  T value;
  memcpy(&value, v, sizeof(T));
  return value;
}
template <class T>
__device__ __forceinline__ void store_streaming(T* p, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "store_streaming stores 4, 8 or 16 bytes");
  unsigned v[sizeof(T) / 4];
  memcpy(v, &value, sizeof(T));
  size_t address = __cvta_generic_to_global(p);
  if constexpr (sizeof(T) == 16)
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
  else if constexpr (sizeof(T) == 8)
    asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(v[0]), "r"(v[1]) : "memory");
  else
    asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(address), "r"(v[0]) : "memory");
}

#endif
