// 16 rows of numbers into one panel [D, 16] of floats: lane j holds row j.
#pragma once

#include "cpu/simd.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

#if defined(OCTAVO_LEVEL_avx2) || defined(OCTAVO_LEVEL_avx512)

constexpr int kBlockSide = 8;

inline __m256 load_block_row(const float* p) { return _mm256_loadu_ps(p); }
inline __m256 load_block_row(const Half* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline __m256 load_block_row(const BFloat* p) {
  __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// 8 x 8: pairs, then fours, then the halves.
template <class T>
inline void transpose_block(const T* const* rows, int d, float* to) {
  __m256 a[8];
  for (int i = 0; i < 8; i++) {
    a[i] = load_block_row(rows[i] + d);
  }
  __m256 b[8];
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * kPanel, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * kPanel, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}

#else

constexpr int kBlockSide = 4;

template <class T>
inline void transpose_block(const T* const* rows, int d, float* to) {
  Vec a = load(rows[0] + d);
  Vec b = load(rows[1] + d);
  Vec c = load(rows[2] + d);
  Vec e = load(rows[3] + d);
  Vec ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  Vec ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  Vec ce_low = __builtin_shufflevector(c, e, 0, 4, 1, 5);
  Vec ce_high = __builtin_shufflevector(c, e, 2, 6, 3, 7);
  store(to, __builtin_shufflevector(ab_low, ce_low, 0, 1, 4, 5));
  store(to + kPanel, __builtin_shufflevector(ab_low, ce_low, 2, 3, 6, 7));
  store(to + 2 * kPanel, __builtin_shufflevector(ab_high, ce_high, 0, 1, 4, 5));
  store(to + 3 * kPanel, __builtin_shufflevector(ab_high, ce_high, 2, 3, 6, 7));
}

#endif

template <class T>
void transpose_rows(const T* const (&rows)[kPanel], int head_dim, float* panel) {
  int whole = head_dim - head_dim % kBlockSide;
  for (int j = 0; j < kPanel; j += kBlockSide) {
    for (int d = 0; d < whole; d += kBlockSide) {
      transpose_block(rows + j, d, panel + d * kPanel + j);
    }
    for (int d = whole; d < head_dim; d++) {
      for (int i = 0; i < kBlockSide; i++) {
        panel[d * kPanel + j + i] = load_part(rows[j + i] + d, 1)[0];
      }
    }
  }
}

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
