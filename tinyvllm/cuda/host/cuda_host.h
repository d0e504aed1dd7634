// CUDA C++ for a host compiler: included before every .cu that the emulator compiles.
#pragma once
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "emu.h"

#define TINYVLLM_EMULATOR 1
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static __thread  // unlike thread_local: no constructors, as in CUDA
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))

#define threadIdx (emu::self()->tid)
#define blockIdx (emu::self()->block->index)
#define blockDim (emu::self()->block->dim)
#define gridDim (emu::self()->block->grid)
#define warpSize 32

namespace emu {
// What `extern __shared__ T name[];` is rewritten to.
template <class T>
inline __attribute__((always_inline)) T* dynamic_shared() {
  return (T*)self()->block->dynamic_shared;
}
}  // namespace emu

#include "vector_types.h"
#include "intrinsics.h"
#include "atomics.h"
#include "math_functions.h"

// ---- what a GPU does for a kernel besides arithmetic ----

#define printf emu_printf
#undef assert
#define assert(condition) \
  ((condition) ? (void)0 : emu_fail(emu::fault_assert, __FILE__, __LINE__, 0, 0, "assertion failed: %s", #condition))
#define __trap() emu_fail(emu::fault_trap, __FILE__, __LINE__, 0, 0, "__trap() was called")

// Appended by Python behind each declaration of shared variables: constructors would never run.
namespace emu {
template <class T>
struct Element {
  using type = T;
};
template <class T, size_t n>
struct Element<T[n]> : Element<T> {};
template <class T, int dimension>
struct Extent {
  static constexpr unsigned value = 0;
};
template <class T, size_t n>
struct Extent<T[n], 0> {
  static constexpr unsigned value = n;
};
template <class T, size_t n, int dimension>
struct Extent<T[n], dimension> : Extent<T, dimension - 1> {};
}  // namespace emu
// In an instrumented mode a table that Python finds by its symbol: the element's bytes, then the extents, 0 where none.
#ifdef TINYVLLM_INSTRUMENT
#define EMU_EXTENTS(name)                                                                                             \
  __attribute__((used)) static const unsigned emu_extents_##name[5] = {                                               \
      sizeof(typename emu::Element<decltype(name)>::type), emu::Extent<decltype(name), 0>::value,                      \
      emu::Extent<decltype(name), 1>::value, emu::Extent<decltype(name), 2>::value, emu::Extent<decltype(name), 3>::value};
#else
#define EMU_EXTENTS(name)
#endif
#define EMU_SHARED(name)                                                            \
  static_assert(__is_trivially_constructible(typename emu::Element<decltype(name)>::type), \
                "a __shared__ variable can't have a constructor");                  \
  EMU_EXTENTS(name)

// PTX can't be compiled for a CPU. Python turns this name into a sentence.
#define asm TINYVLLM_INLINE_PTX
#define __asm__ TINYVLLM_INLINE_PTX
