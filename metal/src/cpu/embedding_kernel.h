// embedding: rows of a packed weight. Row n is lane n % 16 of panel n / 16.
#pragma once

#include "cpu/simd.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

inline float one(const float* p) { return *p; }
inline float one(const Half* p) { return load_part(p, 1)[0]; }
inline float one(const BFloat* p) { return load_part(p, 1)[0]; }

void zero_row(float* out, int k) { __builtin_memset(out, 0, sizeof(float) * k); }

void embedding(const Embedding& args, int64_t begin, int64_t end) {
  with_element(args.weight_type, [&]<class T>() {
    for (int64_t t = begin; t < end; t++) {
      float* out = args.out + t * args.k;
      int id = args.ids[t];
      if (id < 0 || id >= args.n) {
        zero_row(out, args.k);
        continue;
      }
      const T* lane = static_cast<const T*>(args.panels) + int64_t{id / kPanel} * args.k * kPanel + id % kPanel;
      for (int k = 0; k < args.k; k++) {
        out[k] = one(lane + int64_t{k} * kPanel);
      }
    }
  });
}

// The weight is computed as in quantized_linear: one fused multiply-add in float.
template <class T>
void dequantize_row(const QuantizedEmbedding& args, int id, float* out) {
  int per_word = 32 / args.bits;
  uint32_t mask = (1u << args.bits) - 1;
  int64_t panel = id / kPanel;
  const uint32_t* words = args.words + panel * (args.k / per_word) * kPanel + id % kPanel;
  int64_t groups = panel * (args.k / args.group_size) * kPanel + id % kPanel;
  const T* scales = static_cast<const T*>(args.scales) + groups;
  const T* biases = static_cast<const T*>(args.biases) + groups;
  for (int k = 0; k < args.k; k += kWidth) {
    int count = args.k - k < kWidth ? args.k - k : kWidth;
    Vec q{};
    for (int i = 0; i < count; i++) {
      uint32_t word = words[int64_t{(k + i) / per_word} * kPanel];
      q[i] = static_cast<float>((word >> ((k + i) % per_word * args.bits)) & mask);
    }
    int64_t group = int64_t{k / args.group_size} * kPanel;
    store_part(out + k, fma(q, set(one(scales + group)), set(one(biases + group))), count);
  }
}

void quantized_embedding(const QuantizedEmbedding& args, int64_t begin, int64_t end) {
  with_element(args.scale_type, [&]<class T>() {
    for (int64_t t = begin; t < end; t++) {
      float* out = args.out + t * args.k;
      int id = args.ids[t];
      if (id < 0 || id >= args.n) {
        zero_row(out, args.k);
      } else {
        dequantize_row<T>(args, id, out);
      }
    }
  });
}

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
