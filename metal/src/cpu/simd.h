// The vector type of one instruction level: kWidth floats, operators by the compiler's vector extension.
//
// Only what the extension lacks is written per level: a fused multiply-add, a maximum, half precision and the
// transposition of rows. No std:: code: an inline function of the standard library compiled with this level's
// flags could replace the plain copy elsewhere in the program.
#pragma once

#include <cstdint>

#if defined(OCTAVO_LEVEL_avx2) || defined(OCTAVO_LEVEL_avx512)
#include <immintrin.h>
#elif defined(OCTAVO_LEVEL_neon)
#include <arm_neon.h>
#endif

#include "cpu/kernels.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

#if defined(OCTAVO_LEVEL_avx512)
constexpr int kWidth = 16;
constexpr int kMaxRows = 12;  // rows of a register block: accumulators must leave room for the operands
#elif defined(OCTAVO_LEVEL_avx2)
constexpr int kWidth = 8;
constexpr int kMaxRows = 6;
#elif defined(OCTAVO_LEVEL_neon)
constexpr int kWidth = 4;
constexpr int kMaxRows = 6;
#else
constexpr int kWidth = 4;
constexpr int kMaxRows = 2;
#endif

constexpr int kVecs = kPanel / kWidth;  // vectors of one panel

typedef float Vec __attribute__((vector_size(4 * kWidth)));
typedef int32_t Int __attribute__((vector_size(4 * kWidth)));
typedef uint32_t UInt __attribute__((vector_size(4 * kWidth)));
typedef uint16_t UShort __attribute__((vector_size(2 * kWidth)));
typedef Vec UnalignedVec __attribute__((aligned(4), may_alias));
typedef UInt UnalignedUInt __attribute__((aligned(4), may_alias));
typedef UShort UnalignedUShort __attribute__((aligned(2), may_alias));

// Storage types of numbers narrower than float.
struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};

inline Vec set(float x) { return x - Vec{}; }  // x - 0 is x, the sign of zero included; x + 0 is not
inline Int lane_numbers() {
  Int lanes{};
  for (int i = 0; i < kWidth; i++) {
    lanes[i] = i;
  }
  return lanes;
}
inline Vec load(const float* p) { return *reinterpret_cast<const UnalignedVec*>(p); }
inline UInt load(const uint32_t* p) { return *reinterpret_cast<const UnalignedUInt*>(p); }
inline void store(float* p, Vec x) { *reinterpret_cast<UnalignedVec*>(p) = x; }
inline Vec to_float(Int x) { return __builtin_convertvector(x, Vec); }
inline Vec select(Int mask, Vec yes, Vec no) { return Vec((mask & Int(yes)) | (~mask & Int(no))); }

// ---- Per level ------------------------------------------------------------------------------------------

#if defined(OCTAVO_LEVEL_avx512)

inline Vec fma(Vec a, Vec b, Vec c) { return Vec(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c))); }
inline Vec max(Vec a, Vec b) { return Vec(_mm512_max_ps(__m512(a), __m512(b))); }
inline Vec widen(UShort x) { return Vec(_mm512_cvtph_ps(__m256i(x))); }
inline UInt widen_bits(UShort x) { return UInt(_mm512_cvtepu16_epi32(__m256i(x))); }
inline UShort narrow(Vec x) { return UShort(_mm512_cvtps_ph(__m512(x), _MM_FROUND_TO_NEAREST_INT)); }

#elif defined(OCTAVO_LEVEL_avx2)

inline Vec fma(Vec a, Vec b, Vec c) { return Vec(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c))); }
inline Vec max(Vec a, Vec b) { return Vec(_mm256_max_ps(__m256(a), __m256(b))); }
inline Vec widen(UShort x) { return Vec(_mm256_cvtph_ps(__m128i(x))); }
inline UInt widen_bits(UShort x) { return UInt(_mm256_cvtepu16_epi32(__m128i(x))); }
inline UShort narrow(Vec x) { return UShort(_mm256_cvtps_ph(__m256(x), _MM_FROUND_TO_NEAREST_INT)); }

#elif defined(OCTAVO_LEVEL_neon)

inline Vec fma(Vec a, Vec b, Vec c) { return Vec(vfmaq_f32(float32x4_t(c), float32x4_t(a), float32x4_t(b))); }
inline Vec max(Vec a, Vec b) { return select(Int(a > b), a, b); }
inline Vec widen(UShort x) { return Vec(vcvt_f32_f16(float16x4_t(x))); }
inline UInt widen_bits(UShort x) { return __builtin_convertvector(x, UInt); }
inline UShort narrow(Vec x) { return UShort(vcvt_f16_f32(float32x4_t(x))); }

#else

// Two roundings: without the instruction a fused one costs a library call.
inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
inline Vec max(Vec a, Vec b) { return select(Int(a > b), a, b); }

inline UInt widen_bits(UShort x) { return __builtin_convertvector(x, UInt); }

// IEEE half to float by moving the fields; the multiplication brings subnormal halves to their place.
inline Vec widen(UShort x) {
  UInt bits = widen_bits(x);
  UInt sign = (bits & 0x8000) << 16;
  UInt rest = (bits & 0x7fff) << 13;
  Vec finite = Vec(rest) * 0x1p112f;
  Vec special = Vec(rest | 0x7f800000);
  return Vec(UInt(select(Int(rest >= 0x0f800000), special, finite)) | sign);
}

// Float to half, to nearest even: the addition of 0.5 rounds subnormals in the float unit.
inline UShort narrow(Vec x) {
  UInt sign = (UInt(x) >> 16) & 0x8000;
  UInt a = UInt(x) & 0x7fffffff;
  UInt subnormal = UInt(Vec(a) + 0.5f) - 0x3f000000;
  UInt normal = (a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13;
  UInt not_a_number = 0x7e00 | ((a >> 13) & 0x3ff);
  UInt half = UInt(select(Int(a < 0x38800000), Vec(subnormal), Vec(normal)));
  half = UInt(select(Int(a >= 0x477ff000), Vec(UInt{} + 0x7c00), Vec(half)));
  half = UInt(select(Int(a > 0x7f800000), Vec(not_a_number), Vec(half)));
  return __builtin_convertvector(half | sign, UShort);
}

#endif

// ---- Storage types --------------------------------------------------------------------------------------

inline Vec load(const Half* p) { return widen(*reinterpret_cast<const UnalignedUShort*>(p)); }

inline Vec load(const BFloat* p) {
  return Vec(widen_bits(*reinterpret_cast<const UnalignedUShort*>(p)) << 16);
}

inline void store(Half* p, Vec x) { *reinterpret_cast<UnalignedUShort*>(p) = narrow(x); }

// To nearest even; a NaN keeps its upper bits and stays one.
inline void store(BFloat* p, Vec x) {
  UInt bits = UInt(x);
  UInt rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  UInt quiet = (bits >> 16) | 0x40;
  Int is_nan = Int((bits & 0x7fffffff) > 0x7f800000);
  UInt result = UInt(select(is_nan, Vec(quiet), Vec(rounded)));
  *reinterpret_cast<UnalignedUShort*>(p) = __builtin_convertvector(result, UShort);
}

// The first `count` < kWidth numbers; the others are zeros. Through a buffer, so the arithmetic is the vector's.
template <class T>
inline Vec load_part(const T* p, int count) {
  T buffer[kWidth] = {};
  __builtin_memcpy(buffer, p, sizeof(T) * count);
  return load(buffer);
}

template <class T>
inline void store_part(T* p, Vec x, int count) {
  T buffer[kWidth];
  store(buffer, x);
  __builtin_memcpy(p, buffer, sizeof(T) * count);
}

// Calls work.template operator()<T>() with the storage type of `element`.
template <class Work>
inline void with_element(Element element, const Work& work) {
  switch (element) {
    case Element::float32:
      return work.template operator()<float>();
    case Element::float16:
      return work.template operator()<Half>();
    case Element::bfloat16:
      return work.template operator()<BFloat>();
  }
}

// Calls work.template operator()<R>() with R = rows, 1 <= rows <= kMaxRows.
template <int R = kMaxRows, class Work>
inline void with_rows(int rows, const Work& work) {
  if constexpr (R > 1) {
    if (rows < R) {
      return with_rows<R - 1>(rows, work);
    }
  }
  work.template operator()<R>();
}

// How many panels a register block of R rows takes side by side: as many as the registers hold, so that enough
// chains of additions run to hide the latency of one. Numbers that must be converted need registers themselves.
template <int R, class T>
constexpr int panels_in_flight() {
  constexpr int panels = (sizeof(T) == sizeof(float) ? kMaxRows : kMaxRows * 2 / 3) / R;
  return panels > 1 ? panels : 1;
}

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
