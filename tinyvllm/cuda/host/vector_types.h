// CUDA's vector types, with their alignments, and make_*.
#pragma once

#define EMU_VECTOR1(T, name)                 \
  struct name##1 {                           \
    T x;                                     \
  };                                         \
  inline __attribute__((always_inline)) name##1 make_##name##1(T x) { return name##1{x}; }
#define EMU_VECTOR2(T, name, bytes)          \
  struct alignas(bytes) name##2 {            \
    T x, y;                                  \
  };                                         \
  inline __attribute__((always_inline)) name##2 make_##name##2(T x, T y) { return name##2{x, y}; }
#define EMU_VECTOR3(T, name)                 \
  struct name##3 {                           \
    T x, y, z;                               \
  };                                         \
  inline __attribute__((always_inline)) name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }
#define EMU_VECTOR4(T, name, bytes)          \
  struct alignas(bytes) name##4 {            \
    T x, y, z, w;                            \
  };                                         \
  inline __attribute__((always_inline)) name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
#define EMU_VECTORS(T, name, bytes2, bytes4) \
  EMU_VECTOR1(T, name)                       \
  EMU_VECTOR2(T, name, bytes2)               \
  EMU_VECTOR3(T, name)                       \
  EMU_VECTOR4(T, name, bytes4)

EMU_VECTORS(signed char, char, 2, 4)
EMU_VECTORS(unsigned char, uchar, 2, 4)
EMU_VECTORS(short, short, 4, 8)
EMU_VECTORS(unsigned short, ushort, 4, 8)
EMU_VECTORS(int, int, 8, 16)
EMU_VECTORS(float, float, 8, 16)
EMU_VECTORS(long long, longlong, 16, 16)
EMU_VECTORS(unsigned long long, ulonglong, 16, 16)
EMU_VECTORS(double, double, 16, 16)
EMU_VECTOR1(unsigned, uint)
EMU_VECTOR2(unsigned, uint, 8)
EMU_VECTOR4(unsigned, uint, 16)
inline __attribute__((always_inline)) uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return uint3{x, y, z}; }

#undef EMU_VECTORS
#undef EMU_VECTOR1
#undef EMU_VECTOR2
#undef EMU_VECTOR3
#undef EMU_VECTOR4
