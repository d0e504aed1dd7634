// bfloat16 for a host compiler: the part of NVIDIA's cuda_bf16.h that is in the language subset.
//
// The upper half of a float; conversions round to nearest, ties to even, as in chapter 2.
#pragma once
#include "cuda_host.h"

#define __CUDA_BF16_TYPES_EXIST__ 1

namespace emu {

EMU_ALWAYS float bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

EMU_ALWAYS unsigned short float_to_bfloat16(float v) {
  unsigned bits = __float_as_uint(v);
  if (__builtin_isnan(v)) return 0x7FFF;
  return (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

EMU_ALWAYS unsigned short float_to_bfloat16_toward_zero(float v) {
  return __builtin_isnan(v) ? 0x7FFF : (unsigned short)(__float_as_uint(v) >> 16);
}

// By way of a float whose last bit says that something was cut off: no double rounding.
EMU_ALWAYS unsigned short double_to_bfloat16(double v) {
  float near = (float)v;
  unsigned bits = __float_as_uint(near);
  if ((double)near != v && !(bits & 1) && (bits & 0x7FFFFFFFu) < 0x7F800000u)
    near = __uint_as_float(__builtin_fabs(v) > __builtin_fabs((double)near) ? bits | 1 : bits - 1);
  return float_to_bfloat16(near);
}

}  // namespace emu

struct __nv_bfloat16_raw {
  unsigned short x;
};

struct __nv_bfloat16 {
  unsigned short bits;

  __nv_bfloat16() = default;  // trivial: __shared__ arrays of it are allowed
  EMU_ALWAYS __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {}
  EMU_ALWAYS __nv_bfloat16(float v) : bits(emu::float_to_bfloat16(v)) {}
  EMU_ALWAYS __nv_bfloat16(double v) : bits(emu::double_to_bfloat16(v)) {}
  EMU_ALWAYS __nv_bfloat16(short v) : bits(emu::double_to_bfloat16(v)) {}
  EMU_ALWAYS __nv_bfloat16(unsigned short v) : bits(emu::double_to_bfloat16(v)) {}
  EMU_ALWAYS __nv_bfloat16(int v) : bits(emu::double_to_bfloat16(v)) {}
  EMU_ALWAYS __nv_bfloat16(unsigned v) : bits(emu::double_to_bfloat16(v)) {}
  EMU_ALWAYS __nv_bfloat16(long v) : bits(emu::double_to_bfloat16(v)) {}
  EMU_ALWAYS __nv_bfloat16(long long v) : bits(emu::double_to_bfloat16(v)) {}
  EMU_ALWAYS operator float() const { return emu::bfloat16_to_float(bits); }
  EMU_ALWAYS operator __nv_bfloat16_raw() const { return __nv_bfloat16_raw{bits}; }
  EMU_ALWAYS explicit operator bool() const { return (bits & 0x7FFF) != 0; }
  EMU_ALWAYS explicit operator int() const { return __float2int_rz(float(*this)); }
  EMU_ALWAYS __nv_bfloat16& operator=(float v) {
    bits = emu::float_to_bfloat16(v);
    return *this;
  }
};
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;

  __nv_bfloat162() = default;
  EMU_ALWAYS __nv_bfloat162(__nv_bfloat16 x_, __nv_bfloat16 y_) : x(x_), y(y_) {}
};
using nv_bfloat162 = __nv_bfloat162;

// ---- conversions ----

EMU_ALWAYS __nv_bfloat16 __float2bfloat16(float v) { return __nv_bfloat16(v); }
EMU_ALWAYS __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
EMU_ALWAYS __nv_bfloat16 __float2bfloat16_rz(float v) {
  __nv_bfloat16 r;
  r.bits = emu::float_to_bfloat16_toward_zero(v);
  return r;
}
EMU_ALWAYS __nv_bfloat16 __double2bfloat16(double v) { return __nv_bfloat16(v); }
EMU_ALWAYS float __bfloat162float(__nv_bfloat16 v) { return float(v); }
EMU_ALWAYS __nv_bfloat16 __int2bfloat16_rn(int v) { return __nv_bfloat16(v); }
EMU_ALWAYS __nv_bfloat16 __uint2bfloat16_rn(unsigned v) { return __nv_bfloat16(v); }
EMU_ALWAYS int __bfloat162int_rn(__nv_bfloat16 v) { return __float2int_rn(float(v)); }
EMU_ALWAYS int __bfloat162int_rz(__nv_bfloat16 v) { return __float2int_rz(float(v)); }
EMU_ALWAYS unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.bits; }
EMU_ALWAYS short __bfloat16_as_short(__nv_bfloat16 v) { return (short)v.bits; }
EMU_ALWAYS __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 r;
  r.bits = bits;
  return r;
}
EMU_ALWAYS __nv_bfloat16 __short_as_bfloat16(short bits) { return __ushort_as_bfloat16((unsigned short)bits); }
EMU_ALWAYS __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 v) { return __nv_bfloat162(v, v); }
EMU_ALWAYS __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
EMU_ALWAYS __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
EMU_ALWAYS __nv_bfloat162 __float2bfloat162_rn(float v) { return __nv_bfloat162(__nv_bfloat16(v), __nv_bfloat16(v)); }
EMU_ALWAYS __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y)); }
EMU_ALWAYS __nv_bfloat162 __float22bfloat162_rn(float2 v) { return __nv_bfloat162(__nv_bfloat16(v.x), __nv_bfloat16(v.y)); }
EMU_ALWAYS float2 __bfloat1622float2(__nv_bfloat162 v) { return make_float2(float(v.x), float(v.y)); }
EMU_ALWAYS __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
EMU_ALWAYS __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
EMU_ALWAYS float __low2float(__nv_bfloat162 v) { return float(v.x); }
EMU_ALWAYS float __high2float(__nv_bfloat162 v) { return float(v.y); }

// ---- arithmetic: computed exactly enough, rounded once ----

EMU_ALWAYS __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) + float(b)); }
EMU_ALWAYS __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) - float(b)); }
EMU_ALWAYS __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) * float(b)); }
EMU_ALWAYS __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) / float(b)); }
EMU_ALWAYS __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { return __nv_bfloat16((double)float(a) * (double)float(b) + (double)float(c)); }
EMU_ALWAYS __nv_bfloat16 __hneg(__nv_bfloat16 a) { return __ushort_as_bfloat16(a.bits ^ 0x8000); }
EMU_ALWAYS __nv_bfloat16 __habs(__nv_bfloat16 a) { return __ushort_as_bfloat16(a.bits & 0x7FFF); }
EMU_ALWAYS bool __hisnan(__nv_bfloat16 a) { return isnan(float(a)); }
EMU_ALWAYS int __hisinf(__nv_bfloat16 a) { return isinf(float(a)) ? (a.bits & 0x8000 ? -1 : 1) : 0; }
EMU_ALWAYS __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fmaxf(float(a), float(b))); }
EMU_ALWAYS __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fminf(float(a), float(b))); }
EMU_ALWAYS __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
EMU_ALWAYS __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return __hsub(a, b); }
EMU_ALWAYS __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
EMU_ALWAYS __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return __hdiv(a, b); }
EMU_ALWAYS __nv_bfloat16 operator+(__nv_bfloat16 a) { return a; }
EMU_ALWAYS __nv_bfloat16 operator-(__nv_bfloat16 a) { return __hneg(a); }
EMU_ALWAYS __nv_bfloat16& operator+=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a + b; }
EMU_ALWAYS __nv_bfloat16& operator-=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a - b; }
EMU_ALWAYS __nv_bfloat16& operator*=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a * b; }
EMU_ALWAYS __nv_bfloat16& operator/=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a / b; }
#define EMU_COMPARE(op, name)                                                    \
  EMU_ALWAYS bool operator op(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) op float(b); }  \
  EMU_ALWAYS bool name(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) op float(b); }
EMU_COMPARE(==, __heq)
EMU_COMPARE(!=, __hne)
EMU_COMPARE(<, __hlt)
EMU_COMPARE(<=, __hle)
EMU_COMPARE(>, __hgt)
EMU_COMPARE(>=, __hge)
#undef EMU_COMPARE
#define EMU_MATH(name, expression) \
  EMU_ALWAYS __nv_bfloat16 name(__nv_bfloat16 a) { return __nv_bfloat16(expression); }
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
  EMU_ALWAYS __nv_bfloat162 name(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(one(a.x, b.x), one(a.y, b.y)); }
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
EMU_ALWAYS __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) { return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
EMU_ALWAYS __nv_bfloat162 __hneg2(__nv_bfloat162 a) { return __nv_bfloat162(__hneg(a.x), __hneg(a.y)); }
EMU_ALWAYS __nv_bfloat162 __habs2(__nv_bfloat162 a) { return __nv_bfloat162(__habs(a.x), __habs(a.y)); }

EMU_ALWAYS __nv_bfloat16 atomicAdd(__nv_bfloat16* p, __nv_bfloat16 value, EMU_SITE) {
  return emu::atomic_change(p, [value](__nv_bfloat16 old) { return old + value; }, line, file);
}
EMU_ALWAYS __nv_bfloat162 atomicAdd(__nv_bfloat162* p, __nv_bfloat162 value, EMU_SITE) {
  return emu::atomic_change(p, [value](__nv_bfloat162 old) { return old + value; }, line, file);
}
