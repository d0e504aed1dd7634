// Atomic functions on global and shared memory, relaxed as CUDA's are. Each returns the old value.
#pragma once
#include "emu.h"

namespace emu {

template <size_t bytes>
struct Bits;
template <>
struct Bits<2> {
  using type = uint16_t;
};
template <>
struct Bits<4> {
  using type = uint32_t;
};
template <>
struct Bits<8> {
  using type = uint64_t;
};

template <class T, class Change>
EMU_OWN T atomic_change(T* p, Change change, int line, const char* file) {
  using U = typename Bits<sizeof(T)>::type;
  emu_spin(file, line);
  EMU_HOOK(p, sizeof(T), access_atomic);
  U old = __atomic_load_n((U*)p, __ATOMIC_RELAXED), wanted;
  T value, changed;
  do {
    memcpy((void*)&value, &old, sizeof(T));
    changed = change(value);
    memcpy(&wanted, (void*)&changed, sizeof(T));
  } while (!__atomic_compare_exchange_n((U*)p, &old, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return value;
}

}  // namespace emu

#define EMU_ATOMIC(name, T, expression)                                                \
  EMU_ALWAYS T name(T* p, T value, EMU_SITE) {                                         \
    return emu::atomic_change(p, [value](T old) -> T { return expression; }, line, file); \
  }
#define EMU_ATOMIC_INTEGERS(name, expression)   \
  EMU_ATOMIC(name, int, expression)             \
  EMU_ATOMIC(name, unsigned, expression)        \
  EMU_ATOMIC(name, unsigned long long, expression)

EMU_ATOMIC(atomicAdd, int, (int)((unsigned)old + (unsigned)value))
EMU_ATOMIC(atomicAdd, unsigned, old + value)
EMU_ATOMIC(atomicAdd, unsigned long long, old + value)
EMU_ATOMIC(atomicAdd, float, old + value)
EMU_ATOMIC(atomicAdd, double, old + value)
EMU_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)value))
EMU_ATOMIC(atomicSub, unsigned, old - value)
EMU_ATOMIC_INTEGERS(atomicMin, value < old ? value : old)
EMU_ATOMIC_INTEGERS(atomicMax, value > old ? value : old)
EMU_ATOMIC(atomicMin, long long, value < old ? value : old)
EMU_ATOMIC(atomicMax, long long, value > old ? value : old)
EMU_ATOMIC_INTEGERS(atomicAnd, old & value)
EMU_ATOMIC_INTEGERS(atomicOr, old | value)
EMU_ATOMIC_INTEGERS(atomicXor, old ^ value)
EMU_ATOMIC_INTEGERS(atomicExch, ((void)old, value))
EMU_ATOMIC(atomicExch, float, ((void)old, value))
EMU_ATOMIC(atomicInc, unsigned, old >= value ? 0u : old + 1u)
EMU_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1u)
#undef EMU_ATOMIC
#undef EMU_ATOMIC_INTEGERS

#define EMU_CAS(T)                                                                                                \
  EMU_ALWAYS T atomicCAS(T* p, T compare, T value, EMU_SITE) {                                                    \
    return emu::atomic_change(p, [=](T old) -> T { return old == compare ? value : old; }, line, file);           \
  }
EMU_CAS(int)
EMU_CAS(unsigned)
EMU_CAS(unsigned long long)
EMU_CAS(unsigned short)
#undef EMU_CAS
