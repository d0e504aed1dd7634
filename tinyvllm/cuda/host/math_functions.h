// CUDA's mathematics: float overloads of the C functions, the f-named ones that C lacks, the __fast ones, conversions.
//
// On the CPU __expf and its kin are as exact as expf: tolerances must allow for the GPU's fast versions. Names that C
// libraries also declare are renamed by object-like macros (a function-like one could make a wrong line legal).
#pragma once
#include "emu.h"

#undef isnan
#undef isinf
#undef isfinite
#undef signbit

#define EMU_CLASSIFY(name, builtin)                           \
  EMU_ALWAYS bool emu_##name(float x) { return builtin(x); }  \
  EMU_ALWAYS bool emu_##name(double x) { return builtin(x); }
EMU_CLASSIFY(isnan, __builtin_isnan)
EMU_CLASSIFY(isinf, __builtin_isinf)
EMU_CLASSIFY(isfinite, __builtin_isfinite)
EMU_CLASSIFY(signbit, __builtin_signbit)
#undef EMU_CLASSIFY
#define isnan emu_isnan
#define isinf emu_isinf
#define isfinite emu_isfinite
#define signbit emu_signbit

// Some systems' <math.h> declares these overloads itself, others don't: ours have names of their own.
#define EMU_OVERLOAD1(name)                                       \
  EMU_ALWAYS float emu_##name(float x) { return name##f(x); }     \
  EMU_ALWAYS double emu_##name(double x) { return __builtin_##name(x); } \
  EMU_ALWAYS double emu_##name(int x) { return __builtin_##name((double)x); }
#define EMU_OVERLOAD2(name)                                                             \
  EMU_ALWAYS float emu_##name(float x, float y) { return name##f(x, y); }               \
  EMU_ALWAYS double emu_##name(double x, double y) { return __builtin_##name(x, y); }
EMU_OVERLOAD1(acos) EMU_OVERLOAD1(acosh) EMU_OVERLOAD1(asin) EMU_OVERLOAD1(asinh) EMU_OVERLOAD1(atan) EMU_OVERLOAD1(atanh)
EMU_OVERLOAD1(cbrt) EMU_OVERLOAD1(ceil) EMU_OVERLOAD1(cos) EMU_OVERLOAD1(cosh) EMU_OVERLOAD1(erf) EMU_OVERLOAD1(erfc)
EMU_OVERLOAD1(exp) EMU_OVERLOAD1(exp2) EMU_OVERLOAD1(expm1) EMU_OVERLOAD1(fabs) EMU_OVERLOAD1(floor) EMU_OVERLOAD1(lgamma)
EMU_OVERLOAD1(log) EMU_OVERLOAD1(log10) EMU_OVERLOAD1(log1p) EMU_OVERLOAD1(log2) EMU_OVERLOAD1(nearbyint) EMU_OVERLOAD1(rint)
EMU_OVERLOAD1(round) EMU_OVERLOAD1(sin) EMU_OVERLOAD1(sinh) EMU_OVERLOAD1(sqrt) EMU_OVERLOAD1(tan) EMU_OVERLOAD1(tanh)
EMU_OVERLOAD1(trunc)
EMU_OVERLOAD2(atan2) EMU_OVERLOAD2(copysign) EMU_OVERLOAD2(fmax) EMU_OVERLOAD2(fmin) EMU_OVERLOAD2(fmod) EMU_OVERLOAD2(hypot)
EMU_OVERLOAD2(pow)
EMU_ALWAYS float emu_fma(float x, float y, float z) { return fmaf(x, y, z); }
EMU_ALWAYS double emu_fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
EMU_ALWAYS float emu_ldexp(float x, int e) { return ldexpf(x, e); }
EMU_ALWAYS double emu_ldexp(double x, int e) { return __builtin_ldexp(x, e); }
#undef EMU_OVERLOAD1
#undef EMU_OVERLOAD2
#define acos emu_acos
#define acosh emu_acosh
#define asin emu_asin
#define asinh emu_asinh
#define atan emu_atan
#define atanh emu_atanh
#define cbrt emu_cbrt
#define ceil emu_ceil
#define cos emu_cos
#define cosh emu_cosh
#define erf emu_erf
#define erfc emu_erfc
#define exp emu_exp
#define exp2 emu_exp2
#define expm1 emu_expm1
#define fabs emu_fabs
#define floor emu_floor
#define lgamma emu_lgamma
#define log emu_log
#define log10 emu_log10
#define log1p emu_log1p
#define log2 emu_log2
#define nearbyint emu_nearbyint
#define rint emu_rint
#define round emu_round
#define sin emu_sin
#define sinh emu_sinh
#define sqrt emu_sqrt
#define tan emu_tan
#define tanh emu_tanh
#define trunc emu_trunc
#define atan2 emu_atan2
#define copysign emu_copysign
#define fmax emu_fmax
#define fmin emu_fmin
#define fmod emu_fmod
#define hypot emu_hypot
#define pow emu_pow
#define fma emu_fma
#define ldexp emu_ldexp

#define rsqrtf emu_rsqrtf
#define rsqrt emu_rsqrt
#define exp10f emu_exp10f
#define sincosf emu_sincosf
#define fdividef emu_fdividef
#define normf3 emu_norm3df
EMU_ALWAYS float rsqrtf(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
EMU_ALWAYS float rsqrt(float x) { return rsqrtf(x); }
EMU_ALWAYS double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
EMU_ALWAYS float exp10f(float x) { return (float)pow(10.0, (double)x); }
EMU_ALWAYS void sincosf(float x, float* sine, float* cosine) { *sine = sinf(x), *cosine = cosf(x); }
EMU_ALWAYS float fdividef(float x, float y) { return x / y; }
#undef normf3

#define abs emu_abs
EMU_ALWAYS int abs(int x) { return x < 0 ? -x : x; }
EMU_ALWAYS long abs(long x) { return x < 0 ? -x : x; }
EMU_ALWAYS long long abs(long long x) { return x < 0 ? -x : x; }
EMU_ALWAYS float abs(float x) { return __builtin_fabsf(x); }
EMU_ALWAYS double abs(double x) { return __builtin_fabs(x); }

#define EMU_MINMAX(A, B, R)                                              \
  EMU_ALWAYS R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }       \
  EMU_ALWAYS R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
EMU_MINMAX(int, int, int)
EMU_MINMAX(unsigned, unsigned, unsigned)
EMU_MINMAX(int, unsigned, unsigned)
EMU_MINMAX(unsigned, int, unsigned)
EMU_MINMAX(long, long, long)
EMU_MINMAX(unsigned long, unsigned long, unsigned long)
EMU_MINMAX(long, unsigned long, unsigned long)
EMU_MINMAX(unsigned long, long, unsigned long)
EMU_MINMAX(long long, long long, long long)
EMU_MINMAX(unsigned long long, unsigned long long, unsigned long long)
EMU_MINMAX(long long, unsigned long long, unsigned long long)
EMU_MINMAX(unsigned long long, long long, unsigned long long)
#undef EMU_MINMAX
// With a NaN the other operand is the result.
#define EMU_MINMAX(A, B)                                               \
  EMU_ALWAYS double min(A a, B b) { return fmin((double)a, (double)b); } \
  EMU_ALWAYS double max(A a, B b) { return fmax((double)a, (double)b); }
EMU_ALWAYS float min(float a, float b) { return fminf(a, b); }
EMU_ALWAYS float max(float a, float b) { return fmaxf(a, b); }
EMU_MINMAX(double, double)
EMU_MINMAX(float, double)
EMU_MINMAX(double, float)
#undef EMU_MINMAX
#define umin min
#define umax max

// ---- the fast versions ----

#define __expf emu_fast_expf
#define __exp10f emu_fast_exp10f
#define __logf emu_fast_logf
#define __log2f emu_fast_log2f
#define __log10f emu_fast_log10f
#define __powf emu_fast_powf
#define __sinf emu_fast_sinf
#define __cosf emu_fast_cosf
#define __tanf emu_fast_tanf
#define __sincosf emu_fast_sincosf
#define __fdividef emu_fast_fdividef
EMU_ALWAYS float __expf(float x) { return expf(x); }
EMU_ALWAYS float __exp10f(float x) { return exp10f(x); }
EMU_ALWAYS float __logf(float x) { return logf(x); }
EMU_ALWAYS float __log2f(float x) { return log2f(x); }
EMU_ALWAYS float __log10f(float x) { return log10f(x); }
EMU_ALWAYS float __powf(float x, float y) { return powf(x, y); }
EMU_ALWAYS float __sinf(float x) { return sinf(x); }
EMU_ALWAYS float __cosf(float x) { return cosf(x); }
EMU_ALWAYS float __tanf(float x) { return tanf(x); }
EMU_ALWAYS void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
EMU_ALWAYS float __fdividef(float x, float y) { return x / y; }
EMU_ALWAYS float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
EMU_ALWAYS float __fadd_rn(float x, float y) { return x + y; }
EMU_ALWAYS float __fsub_rn(float x, float y) { return x - y; }
EMU_ALWAYS float __fmul_rn(float x, float y) { return x * y; }
EMU_ALWAYS float __fdiv_rn(float x, float y) { return x / y; }
EMU_ALWAYS float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
EMU_ALWAYS float __frcp_rn(float x) { return 1.0f / x; }
EMU_ALWAYS float __fsqrt_rn(float x) { return sqrtf(x); }
EMU_ALWAYS float __frsqrt_rn(float x) { return rsqrtf(x); }

// ---- bits as numbers, numbers as bits ----

namespace emu {
template <class To, class From>
EMU_ALWAYS To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  memcpy((void*)&to, &from, sizeof to);
  return to;
}
// CUDA's float to integer conversions saturate, and NaN gives 0.
template <class I>
EMU_ALWAYS I to_integer(double x, I lowest, I highest) {
  if (__builtin_isnan(x)) return 0;
  if (x <= (double)lowest) return lowest;
  if (x >= (double)highest) return highest;
  return (I)x;
}
}  // namespace emu
EMU_ALWAYS int __float_as_int(float x) { return emu::bits_as<int>(x); }
EMU_ALWAYS unsigned __float_as_uint(float x) { return emu::bits_as<unsigned>(x); }
EMU_ALWAYS float __int_as_float(int x) { return emu::bits_as<float>(x); }
EMU_ALWAYS float __uint_as_float(unsigned x) { return emu::bits_as<float>(x); }
EMU_ALWAYS long long __double_as_longlong(double x) { return emu::bits_as<long long>(x); }
EMU_ALWAYS double __longlong_as_double(long long x) { return emu::bits_as<double>(x); }

#define EMU_TO_INTEGER(suffix, rounding)                                                                          \
  EMU_ALWAYS int __float2int_##suffix(float x) { return emu::to_integer<int>(rounding((double)x), INT_MIN, INT_MAX); } \
  EMU_ALWAYS unsigned __float2uint_##suffix(float x) {                                                            \
    return emu::to_integer<unsigned>(rounding((double)x), 0u, UINT_MAX);                                          \
  }
EMU_TO_INTEGER(rn, __builtin_rint)
EMU_TO_INTEGER(rz, __builtin_trunc)
EMU_TO_INTEGER(rd, __builtin_floor)
EMU_TO_INTEGER(ru, __builtin_ceil)
#undef EMU_TO_INTEGER
EMU_ALWAYS float __int2float_rn(int x) { return (float)x; }
EMU_ALWAYS float __uint2float_rn(unsigned x) { return (float)x; }
EMU_ALWAYS float __ll2float_rn(long long x) { return (float)x; }
EMU_ALWAYS float __double2float_rn(double x) { return (float)x; }
