// Scalars and short vectors of Metal.
#pragma once

#include <cstdint>
#include <type_traits>

#include "../emulator.h"

#define EMULATOR_INLINE inline __attribute__((always_inline))

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long ulong;
typedef _Float16 half;

template <class To, class From>
EMULATOR_INLINE To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// Rounds to nearest even. As in Metal, nothing turns into it by itself.
struct bfloat {
  ushort bits;

  bfloat() = default;
  EMULATOR_INLINE explicit bfloat(float x) {
    uint u = as_type<uint>(x);
    bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? ushort((u >> 16) | 64) : ushort((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  EMULATOR_INLINE operator float() const { return as_type<float>(uint(bits) << 16); }
};

template <class T, int N>
struct vec;

template <class T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
  union {
    T v[2];
    struct {
      T x, y;
    };
  };
  vec() = default;
  EMULATOR_INLINE vec(T a, T b) : v{a, b} {}
  EMULATOR_INLINE T& operator[](int i) { return v[i]; }
  EMULATOR_INLINE const T& operator[](int i) const { return v[i]; }
  EMULATOR_INLINE vec& operator*=(T s) {
    v[0] *= s;
    v[1] *= s;
    return *this;
  }
};

template <class T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
  union {
    T v[3];
    struct {
      T x, y, z;
    };
  };
  vec() = default;
  EMULATOR_INLINE vec(T a, T b, T c) : v{a, b, c} {}
};

typedef vec<float, 2> float2;
typedef vec<float, 3> float3;
typedef vec<int, 2> int2;
typedef vec<uint, 3> uint3;
static_assert(sizeof(float3) == 16 && sizeof(float2) == 8);

#define INFINITY __builtin_inff()
#define M_LOG2E_F 1.44269504088896340736f

// A position attribute, as the type that the kernel asks for.
template <class T>
EMULATOR_INLINE T emulator_position(const uint* p) {
  if constexpr (std::is_integral_v<T>) {
    return T(p[0]);
  } else {
    return T(p[0], p[1], p[2]);
  }
}
