// fp16 for a host compiler: the part of NVIDIA's cuda_fp16.h that is in the language subset.
//
// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits; conversions round to nearest, ties to even.
#pragma once
#include "cuda_host.h"

#define __CUDA_FP16_TYPES_EXIST__ 1

namespace emu {

// A float with the half's exponent and mantissa in place, times 2^112, has the right value, subnormals included.
EMU_ALWAYS float half_to_float(unsigned short bits) {
  unsigned sign = (bits & 0x8000u) << 16, rest = bits & 0x7FFFu;
  if (rest >= 0x7C00u) return __uint_as_float(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 13) * 0x1p112f));
}

EMU_ALWAYS unsigned short float_to_half(float v) {
  unsigned bits = __float_as_uint(v), sign = bits >> 16 & 0x8000u;
  bits &= 0x7FFFFFFFu;
  if (bits > 0x7F800000u) return 0x7FFF;
  if (bits >= 0x477FF000u) return (unsigned short)(sign | 0x7C00u);  // 65520 and more round to infinity
  if (bits < 0x38800000u)  // subnormal: adding 0.5 lets the float's own rounding cut at 2^-24
    return (unsigned short)(sign | (__float_as_uint(__uint_as_float(bits) + 0.5f) - 0x3F000000u));
  return (unsigned short)(sign | (bits - 0x38000000u + 0xFFFu + (bits >> 13 & 1)) >> 13);
}

EMU_ALWAYS unsigned short float_to_half_toward_zero(float v) {
  unsigned short rounded = float_to_half(v);
  if (!__builtin_isnan(v) && __builtin_fabsf(half_to_float(rounded)) > __builtin_fabsf(v)) rounded--;
  return rounded;
}

// By way of a float whose last bit says that something was cut off: no double rounding.
EMU_ALWAYS unsigned short double_to_half(double v) {
  float near = (float)v;
  unsigned bits = __float_as_uint(near);
  if ((double)near != v && !(bits & 1) && (bits & 0x7FFFFFFFu) < 0x7F800000u)
    near = __uint_as_float(__builtin_fabs(v) > __builtin_fabs((double)near) ? bits | 1 : bits - 1);
  return float_to_half(near);
}

}  // namespace emu

struct __half_raw {
  unsigned short x;
};

struct __half {
  unsigned short bits;

  __half() = default;  // trivial: __shared__ arrays of it are allowed
  EMU_ALWAYS __half(__half_raw raw) : bits(raw.x) {}
  EMU_ALWAYS __half(float v) : bits(emu::float_to_half(v)) {}
  EMU_ALWAYS __half(double v) : bits(emu::double_to_half(v)) {}
  EMU_ALWAYS __half(short v) : bits(emu::double_to_half(v)) {}
  EMU_ALWAYS __half(unsigned short v) : bits(emu::double_to_half(v)) {}
  EMU_ALWAYS __half(int v) : bits(emu::double_to_half(v)) {}
  EMU_ALWAYS __half(unsigned v) : bits(emu::double_to_half(v)) {}
  EMU_ALWAYS __half(long v) : bits(emu::double_to_half(v)) {}
  EMU_ALWAYS __half(long long v) : bits(emu::double_to_half(v)) {}
  EMU_ALWAYS operator float() const { return emu::half_to_float(bits); }
  EMU_ALWAYS operator __half_raw() const { return __half_raw{bits}; }
  EMU_ALWAYS explicit operator bool() const { return (bits & 0x7FFF) != 0; }
  EMU_ALWAYS explicit operator int() const { return __float2int_rz(float(*this)); }
  EMU_ALWAYS __half& operator=(float v) {
    bits = emu::float_to_half(v);
    return *this;
  }
};
using half = __half;

struct alignas(4) __half2 {
  __half x, y;

  __half2() = default;
  EMU_ALWAYS __half2(__half x_, __half y_) : x(x_), y(y_) {}
};
using half2 = __half2;

// ---- conversions ----

EMU_ALWAYS __half __float2half(float v) { return __half(v); }
EMU_ALWAYS __half __float2half_rn(float v) { return __half(v); }
EMU_ALWAYS __half __float2half_rz(float v) {
  __half r;
  r.bits = emu::float_to_half_toward_zero(v);
  return r;
}
EMU_ALWAYS __half __double2half(double v) { return __half(v); }
EMU_ALWAYS float __half2float(__half v) { return float(v); }
EMU_ALWAYS __half __int2half_rn(int v) { return __half(v); }
EMU_ALWAYS __half __uint2half_rn(unsigned v) { return __half(v); }
EMU_ALWAYS int __half2int_rn(__half v) { return __float2int_rn(float(v)); }
EMU_ALWAYS int __half2int_rz(__half v) { return __float2int_rz(float(v)); }
EMU_ALWAYS unsigned short __half_as_ushort(__half v) { return v.bits; }
EMU_ALWAYS short __half_as_short(__half v) { return (short)v.bits; }
EMU_ALWAYS __half __ushort_as_half(unsigned short bits) {
  __half r;
  r.bits = bits;
  return r;
}
EMU_ALWAYS __half __short_as_half(short bits) { return __ushort_as_half((unsigned short)bits); }
EMU_ALWAYS __half2 __half2half2(__half v) { return __half2(v, v); }
EMU_ALWAYS __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
EMU_ALWAYS __half2 make_half2(__half x, __half y) { return __half2(x, y); }
EMU_ALWAYS __half2 __float2half2_rn(float v) { return __half2(__half(v), __half(v)); }
EMU_ALWAYS __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
EMU_ALWAYS __half2 __float22half2_rn(float2 v) { return __half2(__half(v.x), __half(v.y)); }
EMU_ALWAYS float2 __half22float2(__half2 v) { return make_float2(float(v.x), float(v.y)); }
EMU_ALWAYS __half __low2half(__half2 v) { return v.x; }
EMU_ALWAYS __half __high2half(__half2 v) { return v.y; }
EMU_ALWAYS float __low2float(__half2 v) { return float(v.x); }
EMU_ALWAYS float __high2float(__half2 v) { return float(v.y); }

// ---- arithmetic: computed exactly enough, rounded once ----

EMU_ALWAYS __half __hadd(__half a, __half b) { return __half(float(a) + float(b)); }
EMU_ALWAYS __half __hsub(__half a, __half b) { return __half(float(a) - float(b)); }
EMU_ALWAYS __half __hmul(__half a, __half b) { return __half(float(a) * float(b)); }
EMU_ALWAYS __half __hdiv(__half a, __half b) { return __half(float(a) / float(b)); }
EMU_ALWAYS __half __hfma(__half a, __half b, __half c) { return __half((double)float(a) * (double)float(b) + (double)float(c)); }
EMU_ALWAYS __half __hneg(__half a) { return __ushort_as_half(a.bits ^ 0x8000); }
EMU_ALWAYS __half __habs(__half a) { return __ushort_as_half(a.bits & 0x7FFF); }
EMU_ALWAYS bool __hisnan(__half a) { return isnan(float(a)); }
EMU_ALWAYS int __hisinf(__half a) { return isinf(float(a)) ? (a.bits & 0x8000 ? -1 : 1) : 0; }
EMU_ALWAYS __half __hmax(__half a, __half b) { return __half(fmaxf(float(a), float(b))); }
EMU_ALWAYS __half __hmin(__half a, __half b) { return __half(fminf(float(a), float(b))); }
EMU_ALWAYS __half operator+(__half a, __half b) { return __hadd(a, b); }
EMU_ALWAYS __half operator-(__half a, __half b) { return __hsub(a, b); }
EMU_ALWAYS __half operator*(__half a, __half b) { return __hmul(a, b); }
EMU_ALWAYS __half operator/(__half a, __half b) { return __hdiv(a, b); }
EMU_ALWAYS __half operator+(__half a) { return a; }
EMU_ALWAYS __half operator-(__half a) { return __hneg(a); }
EMU_ALWAYS __half& operator+=(__half& a, __half b) { return a = a + b; }
EMU_ALWAYS __half& operator-=(__half& a, __half b) { return a = a - b; }
EMU_ALWAYS __half& operator*=(__half& a, __half b) { return a = a * b; }
EMU_ALWAYS __half& operator/=(__half& a, __half b) { return a = a / b; }
#define EMU_COMPARE(op, name)                                                    \
  EMU_ALWAYS bool operator op(__half a, __half b) { return float(a) op float(b); }  \
  EMU_ALWAYS bool name(__half a, __half b) { return float(a) op float(b); }
EMU_COMPARE(==, __heq)
EMU_COMPARE(!=, __hne)
EMU_COMPARE(<, __hlt)
EMU_COMPARE(<=, __hle)
EMU_COMPARE(>, __hgt)
EMU_COMPARE(>=, __hge)
#undef EMU_COMPARE
#define EMU_MATH(name, expression) \
  EMU_ALWAYS __half name(__half a) { return __half(expression); }
EMU_MATH(hexp, expf(float(a)))
EMU_MATH(hexp2, exp2f(float(a)))
EMU_MATH(hlog, logf(float(a)))
EMU_MATH(hlog2, log2f(float(a)))
EMU_MATH(hsqrt, sqrtf(float(a)))
EMU_MATH(hrsqrt, rsqrtf(float(a)))
EMU_MATH(hrcp, 1.0f / float(a))
EMU_MATH(hsin, sinf(float(a)))
EMU_MATH(hcos, cosf(float(a)))
EMU_MATH(hfloor, floorf(float(a)))
EMU_MATH(hceil, ceilf(float(a)))
EMU_MATH(hrint, rintf(float(a)))
EMU_MATH(htrunc, truncf(float(a)))
#undef EMU_MATH

#define EMU_PAIR2(name, one) \
  EMU_ALWAYS __half2 name(__half2 a, __half2 b) { return __half2(one(a.x, b.x), one(a.y, b.y)); }
EMU_PAIR2(__hadd2, __hadd)
EMU_PAIR2(__hsub2, __hsub)
EMU_PAIR2(__hmul2, __hmul)
EMU_PAIR2(__h2div, __hdiv)
EMU_PAIR2(__hmax2, __hmax)
EMU_PAIR2(__hmin2, __hmin)
EMU_PAIR2(operator+, __hadd)
EMU_PAIR2(operator-, __hsub)
EMU_PAIR2(operator*, __hmul)
EMU_PAIR2(operator/, __hdiv)
#undef EMU_PAIR2
EMU_ALWAYS __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
EMU_ALWAYS __half2 __hneg2(__half2 a) { return __half2(__hneg(a.x), __hneg(a.y)); }
EMU_ALWAYS __half2 __habs2(__half2 a) { return __half2(__habs(a.x), __habs(a.y)); }

EMU_ALWAYS __half atomicAdd(__half* p, __half value, EMU_SITE) {
  return emu::atomic_change(p, [value](__half old) { return old + value; }, line, file);
}
EMU_ALWAYS __half2 atomicAdd(__half2* p, __half2 value, EMU_SITE) {
  return emu::atomic_change(p, [value](__half2 old) { return old + value; }, line, file);
}
