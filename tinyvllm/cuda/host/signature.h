// The types of a kernel's parameters, told by the compiler: one text for the emulator and for NVRTC.
// Python reads the table to convert arguments (arguments.py); the names come from the source.
#pragma once

namespace tinyvllm {

struct Parameter {
  int pointer, is_const, code, bytes, alignment;  // of what is pointed to, or of the value
};

template <int N>
struct Signature {
  int count;
  Parameter parameters[N + 1];
};

template <class T>
struct Code {
  static constexpr int value = 0;  // a struct: bytes
};
#define TINYVLLM_CODE(type, number)            \
  template <>                                  \
  struct Code<type> {                          \
    static constexpr int value = number;       \
  };
TINYVLLM_CODE(void, 1)
TINYVLLM_CODE(bool, 2)
TINYVLLM_CODE(char, 3)
TINYVLLM_CODE(signed char, 3)
TINYVLLM_CODE(unsigned char, 4)
TINYVLLM_CODE(short, 5)
TINYVLLM_CODE(unsigned short, 6)
TINYVLLM_CODE(int, 7)
TINYVLLM_CODE(unsigned int, 8)
TINYVLLM_CODE(long, sizeof(long) == 8 ? 9 : 7)
TINYVLLM_CODE(unsigned long, sizeof(long) == 8 ? 10 : 8)
TINYVLLM_CODE(long long, 9)
TINYVLLM_CODE(unsigned long long, 10)
TINYVLLM_CODE(float, 13)
TINYVLLM_CODE(double, 14)
TINYVLLM_CODE(float2, 13)
TINYVLLM_CODE(float3, 13)
TINYVLLM_CODE(float4, 13)
TINYVLLM_CODE(double2, 14)
#ifdef __CUDA_FP16_TYPES_EXIST__
TINYVLLM_CODE(__half, 11)
TINYVLLM_CODE(__half2, 11)
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
TINYVLLM_CODE(__nv_bfloat16, 12)
TINYVLLM_CODE(__nv_bfloat162, 12)
#endif
#undef TINYVLLM_CODE

template <class T>
struct Plain {
  using type = T;
  static constexpr int is_const = 0;
};
template <class T>
struct Plain<const T> {
  using type = T;
  static constexpr int is_const = 1;
};
template <class T>
struct Plain<volatile T> : Plain<T> {};
template <class T>
struct Plain<const volatile T> : Plain<const T> {};

template <class T>
struct SizeOf {
  static constexpr int bytes = sizeof(T), alignment = alignof(T);
};
template <>
struct SizeOf<void> {
  static constexpr int bytes = 1, alignment = 1;
};

template <class T>
struct Describe {
  using U = typename Plain<T>::type;
  static constexpr Parameter value = {0, 0, Code<U>::value, SizeOf<U>::bytes, SizeOf<U>::alignment};
};
template <class T>
struct Describe<T*> {
  using U = typename Plain<T>::type;
  static constexpr Parameter value = {1, Plain<T>::is_const, Code<U>::value, SizeOf<U>::bytes, SizeOf<U>::alignment};
};
template <class T>
struct Describe<T* const> : Describe<T*> {};

template <class F>
struct Function {  // of a kernel's name, decltype gives the function or a pointer to it
  using type = F;
};
template <class F>
struct Function<F*> {
  using type = F;
};

template <class F>
struct SignatureOf;
template <class... A>
struct SignatureOf<void(A...)> {
  using type = Signature<sizeof...(A)>;
  static constexpr type value = {sizeof...(A), {Describe<A>::value..., {0, 0, 0, 0, 0}}};
};

}  // namespace tinyvllm
