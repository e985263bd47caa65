// rms_norm, rotary_heads and silu_mul: each number of a row depends on that row alone.
#pragma once

#include "cpu/vector_math.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

// Calls work(i, count) for the vectors of [0, size); count < kWidth for the last one.
template <class Work>
inline void for_vectors(int size, const Work& work) {
  int i = 0;
  for (; i + kWidth <= size; i += kWidth) {
    work(i, kWidth);
  }
  if (i < size) {
    work(i, size - i);
  }
}

inline Vec load_some(const float* p, int count) { return count == kWidth ? load(p) : load_part(p, count); }

inline void store_some(float* p, Vec x, int count) {
  if (count == kWidth) {
    store(p, x);
  } else {
    store_part(p, x, count);
  }
}

// 16 sums side by side, whatever kWidth is, then their fixed tree.
float sum_of_squares(const float* x, int size) {
  Vec sums[kVecs] = {};
  int i = 0;
  for (; i + kPanel <= size; i += kPanel) {
    for (int v = 0; v < kVecs; v++) {
      Vec number = load(x + i + v * kWidth);
      sums[v] = fma(number, number, sums[v]);
    }
  }
  for (int v = 0; v < kVecs && i < size; v++, i += kWidth) {
    Vec number = load_some(x + i, size - i < kWidth ? size - i : kWidth);
    sums[v] = fma(number, number, sums[v]);
  }
  float panel[kPanel];
  for (int v = 0; v < kVecs; v++) {
    store(panel + v * kWidth, sums[v]);
  }
  return sum_of_panel(panel);
}

// What rms_norm multiplies a row with, beside its weight.
float rms_scale(const float* x, int size, float eps) {
  return 1.0f / __builtin_sqrtf(sum_of_squares(x, size) / static_cast<float>(size) + eps);
}

void rms_norm(const RMSNorm& a, int64_t begin, int64_t end) {
  for (int64_t row = begin * a.num_heads; row < end * a.num_heads; row++) {
    const float* x = a.x + row / a.num_heads * a.x_stride + row % a.num_heads * a.dim;
    const float* weight = a.weight + row % a.num_weights * a.dim;
    float* out = a.out + row * a.dim;
    float scale = rms_scale(x, a.dim, a.eps);
    for_vectors(a.dim, [&](int i, int count) {
      store_some(out + i, load_some(x + i, count) * scale * load_some(weight + i, count), count);
    });
  }
}

// One head: normed where norm_weight is given, then each pair (x[i], x[i + D / 2]) turned by its angle.
void rotary_head(const RotaryHeads& a, const float* x, const float* norm_weight, int64_t token, float* out) {
  int half = a.head_dim / 2;
  const float* cosines = a.cos + token * half;
  const float* sines = a.sin + token * half;
  float scale = norm_weight ? rms_scale(x, a.head_dim, a.norm_eps) : 1.0f;
  for_vectors(half, [&](int i, int count) {
    Vec first = load_some(x + i, count);
    Vec second = load_some(x + half + i, count);
    if (norm_weight) {
      first = first * scale * load_some(norm_weight + i, count);
      second = second * scale * load_some(norm_weight + half + i, count);
    }
    Vec cosine = load_some(cosines + i, count);
    Vec sine = load_some(sines + i, count);
    store_some(out + i, fma(first, cosine, -(second * sine)), count);
    store_some(out + half + i, fma(second, cosine, first * sine), count);
  });
}

void rotary_heads(const RotaryHeads& a, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; token++) {
    const float* x = a.x + token * a.x_stride;
    for (int head = 0; head < a.num_heads + a.num_kv_heads; head++) {
      int kv_head = head - a.num_heads;
      float* out = kv_head < 0 ? a.q + (token * a.num_heads + head) * a.head_dim
                               : a.k + (token * a.num_kv_heads + kv_head) * a.head_dim;
      const float* weight = a.norm_weight ? a.norm_weight + int64_t{head} * a.head_dim : nullptr;
      rotary_head(a, x + int64_t{head} * a.head_dim, weight, token, out);
    }
  }
}

void silu_mul(const SiluMul& a, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; token++) {
    const float* gate = a.gate_up + token * a.stride;
    const float* up = gate + a.dim;
    float* out = a.out + token * a.dim;
    for_vectors(a.dim, [&](int i, int count) {
      Vec g = load_some(gate + i, count);
      store_some(out + i, g / (1.0f + exp(-g)) * load_some(up + i, count), count);
    });
  }
}

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
