// What Python launches: for every kernel a table of its parameters and a function that unpacks its arguments.
// Appended behind a .cu as TINYVLLM_KERNEL(0, rms_norm<float>).
#pragma once
#include "emu.h"
#include "signature.h"

namespace emu {

template <int... I>
struct Indices {};
template <int N, int... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I>
struct MakeIndices<0, I...> {
  using type = Indices<I...>;
};

template <class T>
struct Value {  // a const parameter is copied from a plain one
  using type = T;
};
template <class T>
struct Value<const T> {
  using type = T;
};

template <auto F>
struct Entry;
template <class... A, void (*F)(A...)>
struct Entry<F> {
  template <int... I>
  static EMU_OWN void unpack(void** args, Indices<I...>) {
    F(*(typename Value<A>::type*)args[I]...);
  }
  static void call(void** args) { unpack(args, typename MakeIndices<sizeof...(A)>::type()); }
  static constexpr typename tinyvllm::SignatureOf<void(A...)>::type signature =
      tinyvllm::SignatureOf<void(A...)>::value;
};

}  // namespace emu

#define TINYVLLM_KERNEL(number, ...)                                                       \
  extern "C" __attribute__((visibility("default"))) const emu::Kernel tinyvllm_kernel_##number = { \
      &emu::Entry<&__VA_ARGS__>::call, &emu::Entry<&__VA_ARGS__>::signature};
