// Barriers, warp functions, memory fences, cached loads and bit intrinsics.
//
// Every warp function is one meeting: the lanes named by the mask come with a pointer to what they bring, the last
// one computes everybody's result, all go on.
#pragma once
#include "emu.h"

#define EMU_ALWAYS inline __attribute__((always_inline))

// ---- block barriers ----

EMU_ALWAYS void __syncthreads(EMU_SITE) { emu_barrier("__syncthreads", 0, file, line); }
EMU_ALWAYS int __syncthreads_count(int predicate, EMU_SITE) {
  emu_barrier("__syncthreads_count", predicate, file, line);
  return emu::self()->block->result_count;
}
EMU_ALWAYS int __syncthreads_or(int predicate, EMU_SITE) {
  emu_barrier("__syncthreads_or", predicate, file, line);
  return emu::self()->block->result_any;
}
EMU_ALWAYS int __syncthreads_and(int predicate, EMU_SITE) {
  emu_barrier("__syncthreads_and", predicate, file, line);
  return emu::self()->block->result_all;
}

// ---- warp functions ----

EMU_ALWAYS void __syncwarp(unsigned mask = 0xFFFFFFFFu, EMU_SITE) {
  emu_warp_meet(mask, nullptr, nullptr, "__syncwarp", file, line);
}

namespace emu {

template <class T>
struct Shuffle {
  T value;
  unsigned source;  // lane
  T result;
};

template <class T>
EMU_OWN void finish_shuffle(void** lanes, unsigned arrived) {
  for (unsigned l = 0; l < warp_lanes; l++) {
    if (!(arrived >> l & 1)) continue;
    Shuffle<T>* mine = (Shuffle<T>*)lanes[l];
    if (arrived >> mine->source & 1)
      mine->result = ((Shuffle<T>*)lanes[mine->source])->value;
    else
      memset((void*)&mine->result, 0xFF, sizeof(T));  // undefined in CUDA: a NaN is easier to see than a plausible number
  }
}
template <class T>
void shuffle_finisher(void** lanes, unsigned arrived) {
  finish_shuffle<T>(lanes, arrived);
}

template <class T>
EMU_OWN T shuffle(unsigned mask, T value, unsigned source, const char* what, int line, const char* file) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2, "a shuffle takes 2, 4 or 8 bytes");
  Shuffle<T> s;
  s.value = value;
  s.source = source;
  emu_warp_meet(mask, &s, shuffle_finisher<T>, what, file, line);
  return s.result;
}

EMU_ALWAYS void check_width(int width, const char* what, int line, const char* file) {
  if (width < 1 || width > 32 || (width & (width - 1)))
    emu_fail(fault_warp, file, line, 0, 0, "%s: width is %d, it must be 1, 2, 4, 8, 16 or 32", what, width);
}

}  // namespace emu

template <class T>
EMU_ALWAYS T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMU_SITE) {
  emu::check_width(width, "__shfl_sync", line, file);
  unsigned first = emu::lane() & ~(width - 1u);
  return emu::shuffle(mask, value, first | (source & (width - 1u)), "__shfl_sync", line, file);
}
template <class T>
EMU_ALWAYS T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_SITE) {
  emu::check_width(width, "__shfl_up_sync", line, file);
  unsigned lane = emu::lane(), first = lane & ~(width - 1u);
  return emu::shuffle(mask, value, delta <= lane - first ? lane - delta : lane, "__shfl_up_sync", line, file);
}
template <class T>
EMU_ALWAYS T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_SITE) {
  emu::check_width(width, "__shfl_down_sync", line, file);
  unsigned lane = emu::lane(), last = lane | (width - 1u);
  return emu::shuffle(mask, value, delta <= last - lane ? lane + delta : lane, "__shfl_down_sync", line, file);
}
template <class T>
EMU_ALWAYS T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, EMU_SITE) {
  emu::check_width(width, "__shfl_xor_sync", line, file);
  unsigned lane = emu::lane(), last = lane | (width - 1u), other = lane ^ (unsigned)lane_mask;
  // Lanes of an earlier group can be read, those of a later one give the thread its own value.
  return emu::shuffle(mask, value, other <= last ? other : lane, "__shfl_xor_sync", line, file);
}

namespace emu {

struct Vote {
  int64_t value;  // what the lane brings
  uint64_t result;
  int bytes, predicate;
};

EMU_OWN void finish_ballot(void** lanes, unsigned arrived) {
  unsigned ballot = 0;
  for (unsigned l = 0; l < warp_lanes; l++)
    if (arrived >> l & 1 && ((Vote*)lanes[l])->value) ballot |= 1u << l;
  for (unsigned l = 0; l < warp_lanes; l++)
    if (arrived >> l & 1) ((Vote*)lanes[l])->result = (uint64_t)arrived << 32 | ballot;
}
inline void ballot_finisher(void** lanes, unsigned arrived) { finish_ballot(lanes, arrived); }

EMU_OWN uint64_t ballot(unsigned mask, int predicate, const char* what, int line, const char* file) {
  Vote vote = {predicate != 0, 0, 0, 0};
  emu_warp_meet(mask, &vote, ballot_finisher, what, file, line);
  return vote.result;
}

EMU_OWN void finish_match(void** lanes, unsigned arrived) {
  for (unsigned l = 0; l < warp_lanes; l++) {
    if (!(arrived >> l & 1)) continue;
    unsigned equal = 0;
    for (unsigned o = 0; o < warp_lanes; o++)
      if (arrived >> o & 1 && ((Vote*)lanes[o])->value == ((Vote*)lanes[l])->value) equal |= 1u << o;
    ((Vote*)lanes[l])->result = (uint64_t)arrived << 32 | equal;
  }
}
inline void match_finisher(void** lanes, unsigned arrived) { finish_match(lanes, arrived); }

template <class T>
EMU_OWN uint64_t match(unsigned mask, T value, const char* what, int line, const char* file) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a match takes 4 or 8 bytes");
  Vote vote = {0, 0, 0, 0};
  memcpy(&vote.value, &value, sizeof(T));
  emu_warp_meet(mask, &vote, match_finisher, what, file, line);
  return vote.result;
}

enum Reduction { reduce_add, reduce_min, reduce_max, reduce_and, reduce_or, reduce_xor };

template <class T, int op>
void reduction_finisher(void** lanes, unsigned arrived) {
  T total = 0;
  bool first = true;
  for (unsigned l = 0; l < warp_lanes; l++) {
    if (!(arrived >> l & 1)) continue;
    T v = (T)((Vote*)lanes[l])->value;
    if (first) total = v;
    else if (op == reduce_add) total = (T)((unsigned)total + (unsigned)v);
    else if (op == reduce_min) total = v < total ? v : total;
    else if (op == reduce_max) total = v > total ? v : total;
    else if (op == reduce_and) total &= v;
    else if (op == reduce_or) total |= v;
    else total ^= v;
    first = false;
  }
  for (unsigned l = 0; l < warp_lanes; l++)
    if (arrived >> l & 1) ((Vote*)lanes[l])->result = (uint64_t)total;
}

template <class T, int op>
EMU_OWN T reduce(unsigned mask, T value, const char* what, int line, const char* file) {
  Vote vote = {(int64_t)value, 0, 0, 0};
  emu_warp_meet(mask, &vote, reduction_finisher<T, op>, what, file, line);
  return (T)vote.result;
}

}  // namespace emu

EMU_ALWAYS unsigned __ballot_sync(unsigned mask, int predicate, EMU_SITE) {
  return (unsigned)emu::ballot(mask, predicate, "__ballot_sync", line, file);
}
EMU_ALWAYS int __any_sync(unsigned mask, int predicate, EMU_SITE) {
  return (unsigned)emu::ballot(mask, predicate, "__any_sync", line, file) != 0;
}
EMU_ALWAYS int __all_sync(unsigned mask, int predicate, EMU_SITE) {
  uint64_t both = emu::ballot(mask, predicate, "__all_sync", line, file);
  return (unsigned)both == (unsigned)(both >> 32);
}
template <class T>
EMU_ALWAYS unsigned __match_any_sync(unsigned mask, T value, EMU_SITE) {
  return (unsigned)emu::match(mask, value, "__match_any_sync", line, file);
}
template <class T>
EMU_ALWAYS unsigned __match_all_sync(unsigned mask, T value, int* all, EMU_SITE) {
  uint64_t both = emu::match(mask, value, "__match_all_sync", line, file);
  *all = (unsigned)both == (unsigned)(both >> 32);
  return *all ? (unsigned)both : 0;
}
#define EMU_REDUCE(name, op)                                                                     \
  EMU_ALWAYS unsigned name(unsigned mask, unsigned value, EMU_SITE) {                            \
    return emu::reduce<unsigned, emu::op>(mask, value, #name, line, file);                       \
  }
#define EMU_REDUCE_SIGNED(name, op)                                                              \
  EMU_REDUCE(name, op)                                                                           \
  EMU_ALWAYS int name(unsigned mask, int value, EMU_SITE) {                                      \
    return emu::reduce<int, emu::op>(mask, value, #name, line, file);                            \
  }
EMU_REDUCE_SIGNED(__reduce_add_sync, reduce_add)
EMU_REDUCE_SIGNED(__reduce_min_sync, reduce_min)
EMU_REDUCE_SIGNED(__reduce_max_sync, reduce_max)
EMU_REDUCE(__reduce_and_sync, reduce_and)
EMU_REDUCE(__reduce_or_sync, reduce_or)
EMU_REDUCE(__reduce_xor_sync, reduce_xor)
#undef EMU_REDUCE
#undef EMU_REDUCE_SIGNED

// ---- memory order, cached loads and stores ----

EMU_ALWAYS void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EMU_ALWAYS void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EMU_ALWAYS void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EMU_ALWAYS void __nanosleep(unsigned) { emu_yield(); }

#define EMU_LOAD(name)                      \
  template <class T>                        \
  EMU_OWN T name(const T* p, EMU_SITE) {    \
    EMU_HOOK(p, sizeof(T), emu::access_read); \
    return *p;                              \
  }
#define EMU_STORE(name)                      \
  template <class T>                         \
  EMU_OWN void name(T* p, T value, EMU_SITE) { \
    EMU_HOOK(p, sizeof(T), emu::access_write); \
    *p = value;                              \
  }
EMU_LOAD(__ldg)
EMU_LOAD(__ldca)
EMU_LOAD(__ldcg)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldlu)
EMU_LOAD(__ldcv)
EMU_STORE(__stwb)
EMU_STORE(__stcg)
EMU_STORE(__stcs)
EMU_STORE(__stwt)
#undef EMU_LOAD
#undef EMU_STORE

// ---- bits ----

EMU_ALWAYS int __popc(unsigned x) { return __builtin_popcount(x); }
EMU_ALWAYS int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EMU_ALWAYS int __clz(int x) { return x ? __builtin_clz(x) : 32; }
EMU_ALWAYS int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
EMU_ALWAYS int __ffs(int x) { return __builtin_ffs(x); }
EMU_ALWAYS int __ffsll(long long x) { return __builtin_ffsll(x); }
EMU_ALWAYS unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
  return __builtin_bswap32(x);
}
EMU_ALWAYS unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
EMU_ALWAYS int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
EMU_ALWAYS unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
EMU_ALWAYS unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
EMU_ALWAYS unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
EMU_ALWAYS unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
EMU_ALWAYS unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t both = (uint64_t)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) result |= (unsigned)(both >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
  return result;
}
EMU_ALWAYS int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
  return c;
}
EMU_ALWAYS unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}
EMU_ALWAYS unsigned __sad(int a, int b, unsigned c) { return c + (a > b ? (unsigned)a - b : (unsigned)b - a); }
EMU_ALWAYS unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
