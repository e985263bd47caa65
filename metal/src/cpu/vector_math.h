// exp and tanh on vectors. A single number goes through the same code, so both agree bit for bit.
#pragma once

#include "cpu/simd.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

constexpr float kInfinity = __builtin_inff();

// 2^n e^r = e^x for lowest <= x, with |r| <= ln 2 / 2; e^r by its series to r^7 (relative error below 1e-8 before
// rounding). `bias` is added to n, so that a large n can be split. NaN stays NaN.
constexpr float kLowestExponent = -86.6f;

inline Vec exp_series(Vec x, int32_t bias) {
  constexpr float log2_e = 1.44269504f;
  constexpr float ln2_high = 0.693359375f;  // 9 bits: n * ln2_high is exact
  constexpr float ln2_low = -2.12194440e-4f;
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  Vec n = (x * log2_e + to_integer) - to_integer;
  Vec r = fma(n, set(-ln2_high), x);
  r = fma(n, set(-ln2_low), r);
  Vec p = set(1.0f / 5040);
  p = fma(p, r, set(1.0f / 720));
  p = fma(p, r, set(1.0f / 120));
  p = fma(p, r, set(1.0f / 24));
  p = fma(p, r, set(1.0f / 6));
  p = fma(p, r, set(0.5f));
  p = fma(p, r, set(1.0f));
  p = fma(p, r, set(1.0f));
  Int power = (__builtin_convertvector(n, Int) + (127 + bias)) << 23;
  return p * Vec(power);
}

// e^x for x <= 0; 0 below -86.6. max() hands a NaN in its second argument on.
inline Vec exp_of_negative(Vec x) {
  Vec result = exp_series(max(set(kLowestExponent), x), 0);
  return Vec(Int(result) & ~Int(x < kLowestExponent));
}

inline float exp_of_negative(float x) { return exp_of_negative(set(x))[0]; }

// e^x for any x; 0 below -86.6, infinity above 88.72. 2^(n - 1) is a normal number for every n in between.
inline Vec exp(Vec x) {
  Vec bounded = select(Int(x > 88.72f), set(88.72f), max(set(kLowestExponent), x));
  Vec result = exp_series(bounded, -1) * 2.0f;
  result = select(Int(x > 88.72f), set(kInfinity), result);
  return Vec(Int(result) & ~Int(x < kLowestExponent));
}

// Near zero a convergent of Lambert's continued fraction, elsewhere (1 - e) / (1 + e) with e = exp(-2 |x|).
inline Vec tanh(Vec x) {
  Vec size = Vec(Int(x) & 0x7fffffff);
  Vec square = x * x;
  Vec numerator = fma(square, square + 105.0f, set(945.0f));
  Vec denominator = fma(square, fma(square, set(15.0f), set(420.0f)), set(945.0f));
  Vec near_zero = x * (numerator / denominator);
  Vec e = exp_of_negative(size * -2.0f);
  Vec far = (1.0f - e) / (1.0f + e);
  Vec signed_far = Vec((Int(x) & int32_t(0x80000000)) | Int(far));
  return select(Int(size < 0.625f), near_zero, signed_far);
}

// The sum of 16 numbers as a tree of fixed shape, whatever kWidth is.
inline float sum_of_panel(const float* p) {
  float eight[8];
  for (int i = 0; i < 8; i++) {
    eight[i] = p[i] + p[i + 8];
  }
  return ((eight[0] + eight[4]) + (eight[2] + eight[6])) + ((eight[1] + eight[5]) + (eight[3] + eight[7]));
}

inline float largest(Vec x) {
  float result = x[0];
  for (int i = 1; i < kWidth; i++) {
    result = result > x[i] ? result : x[i];
  }
  return result;
}

inline float max(float a, float b) { return a > b ? a : b; }

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
