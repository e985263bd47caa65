// linear and quantized_linear: one driver, two kinds of weight.
//
// Few rows: the weights go from their storage straight into the multiplication. Many rows: a tile of one panel
// is converted to float once and multiplied with all rows. Both compute the same weight with the same
// operations and add it in the same order, so they agree bit for bit.
#pragma once

#include "cpu/register_block.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

constexpr int kTileDepth = 256;  // steps along k per tile: 16 KiB, half of a small first-level cache

// Panels [K, 16] of plain numbers.
template <class T>
struct FloatPanels {
  static constexpr int kDirectRows = kMaxRows;

  const T* panels;
  int k;

  template <int R>
  static constexpr int panels_in_flight() {
    return OCTAVO_LEVEL::panels_in_flight<R, T>();
  }

  // Adds x times P neighbouring panels, over the whole of k.
  template <int R, int P>
  void add(RegisterBlock<R, P>& block, const float* x, int64_t panel) const {
    int64_t size = int64_t{k} * kPanel;
    block.add_panels(x, k, panels + panel * size, size, k);
  }

  // [k_end - k_begin, 16] floats of one panel: in place, or converted into scratch.
  const float* tile(int64_t panel, int k_begin, int k_end, float* scratch) const {
    const T* from = panels + (panel * k + k_begin) * kPanel;
    if constexpr (sizeof(T) == sizeof(float)) {
      return from;
    } else {
      for (int i = 0; i < (k_end - k_begin) * kPanel; i += kWidth) {
        store(scratch + i, load(from + i));
      }
      return scratch;
    }
  }
};

// Scales or biases, read once per group: the branch on their dtype costs nothing there.
struct GroupNumbers {
  const void* numbers;
  Element type;

  void prefetch(int64_t i) const {
    __builtin_prefetch(static_cast<const char*>(numbers) + i * (type == Element::float32 ? 4 : 2));
  }

  Vec at(int64_t i) const {
    switch (type) {
      case Element::float16:
        return load(static_cast<const Half*>(numbers) + i);
      case Element::bfloat16:
        return load(static_cast<const BFloat*>(numbers) + i);
      default:
        return load(static_cast<const float*>(numbers) + i);
    }
  }
};

// Panels [K * Bits / 32, 16] of words, each with the Bits-wide numbers of 32 / Bits steps along k, lowest first.
template <int Bits>
struct QuantizedPanels {
  static constexpr int kPerWord = 32 / Bits;
  static constexpr int32_t kMask = (1 << Bits) - 1;
  static constexpr int kDirectRows = kMaxRows < 3 ? kMaxRows : 3;

  const uint32_t* words;
  GroupNumbers scales;
  GroupNumbers biases;
  int k;
  int group_size;

  // Decoding wants registers too: fewer panels than the plain multiplication has.
  template <int R>
  static constexpr int panels_in_flight() {
    constexpr int panels = 4 / (R * kVecs);
    return panels > 1 ? panels : 1;
  }

  static Vec weight(UInt word, int step, Vec scale, Vec bias) {
    return fma(to_float(Int(word >> (step * Bits)) & kMask), scale, bias);
  }

  template <int R, int P>
  void add(RegisterBlock<R, P>& block, const float* x, int64_t panel) const {
    int groups = k / group_size;
    int words_per_group = group_size / kPerWord;
    int64_t panel_words = int64_t{groups} * words_per_group * kPanel;
    for (int g = 0; g < groups; g++) {
      Vec scale[P * kVecs];
      Vec bias[P * kVecs];
      load_group<P>(panel, g, groups, scale, bias);
      const uint32_t* word = words + panel * panel_words + int64_t{g} * words_per_group * kPanel;
      for (int i = 0; i < words_per_group; i++, word += kPanel, x += kPerWord) {
        for (int p = 0; p < P; p++) {
          __builtin_prefetch(word + (p + P) * panel_words);
        }
        UInt w[P * kVecs];
        for (int v = 0; v < P * kVecs; v++) {
          w[v] = load(word + (v / kVecs) * panel_words + (v % kVecs) * kWidth);
        }
        for (int step = 0; step < kPerWord; step++) {
          Vec weights[P * kVecs];
          for (int v = 0; v < P * kVecs; v++) {
            weights[v] = weight(w[v], step, scale[v], bias[v]);
          }
          block.add(x + step, k, weights);
        }
      }
    }
  }

  template <int P>
  void load_group(int64_t panel, int g, int groups, Vec (&scale)[P * kVecs], Vec (&bias)[P * kVecs]) const {
    for (int v = 0; v < P * kVecs; v++) {
      int64_t at = ((panel + v / kVecs) * groups + g) * kPanel + (v % kVecs) * kWidth;
      scale[v] = scales.at(at);
      bias[v] = biases.at(at);
      scales.prefetch(at + int64_t{P} * groups * kPanel);
      biases.prefetch(at + int64_t{P} * groups * kPanel);
    }
  }

  const float* tile(int64_t panel, int k_begin, int k_end, float* scratch) const {
    int groups = k / group_size;
    float* to = scratch;
    for (int i = k_begin; i < k_end; i += kPerWord, to += kPerWord * kPanel) {
      Vec scale[kVecs];
      Vec bias[kVecs];
      load_group<1>(panel, i / group_size, groups, scale, bias);
      const uint32_t* word = words + (panel * k + i) / kPerWord * kPanel;
      __builtin_prefetch(word + kTileDepth / kPerWord * kPanel);
      for (int v = 0; v < kVecs; v++) {
        UInt w = load(word + v * kWidth);
        for (int step = 0; step < kPerWord; step++) {
          store(to + step * kPanel + v * kWidth, weight(w, step, scale[v], bias[v]));
        }
      }
    }
    return scratch;
  }
};

// Where the results of some rows go, and what they start from.
struct LinearRows {
  const float* x;         // [rows, K]
  const float* bias;      // [N] or null
  const float* residual;  // [rows, N] or null
  float* out;             // [rows, N]
  int rows;
  int n;
  int k;

  int columns(int64_t panel) const {
    int64_t left = n - panel * kPanel;
    return left < kPanel ? static_cast<int>(left) : kPanel;
  }

  // The 16 starting values of a panel.
  void start(int64_t panel, float (&values)[kPanel]) const {
    __builtin_memset(values, 0, sizeof(values));
    if (bias) {
      __builtin_memcpy(values, bias + panel * kPanel, sizeof(float) * columns(panel));
    }
  }

  // Puts [rows, 16] results of one panel, from_stride numbers apart, to their columns.
  void finish(int64_t panel, const float* from, int64_t from_stride) const {
    int count = columns(panel);
    for (int r = 0; r < rows; r++) {
      int64_t at = int64_t{r} * n + panel * kPanel;
      const float* sums = from + r * from_stride;
      if (residual) {
        for (int j = 0; j < count; j++) {
          out[at + j] = residual[at + j] + sums[j];
        }
      } else if (out + at != sums) {
        __builtin_memcpy(out + at, sums, sizeof(float) * count);
      }
    }
  }
};

template <int R, int P, class Weight>
void few_rows_block(const Weight& weight, const LinearRows& job, int64_t panel) {
  float values[R][P * kPanel];
  for (int p = 0; p < P; p++) {
    float start[kPanel];
    job.start(panel + p, start);
    for (int r = 0; r < R; r++) {
      __builtin_memcpy(values[r] + p * kPanel, start, sizeof(start));
    }
  }
  RegisterBlock<R, P> block;
  block.load_rows(values[0], P * kPanel);
  weight.add(block, job.x, panel);
  block.store_rows(values[0], P * kPanel);
  for (int p = 0; p < P; p++) {
    job.finish(panel + p, values[0] + p * kPanel, P * kPanel);
  }
}

template <class Weight>
void few_rows(const Weight& weight, const LinearRows& job, int64_t begin, int64_t end) {
  with_rows<Weight::kDirectRows>(job.rows, [&]<int R>() {
    constexpr int P = Weight::template panels_in_flight<R>();
    int64_t panel = begin;
    for (; panel + P <= end; panel += P) {
      few_rows_block<R, P>(weight, job, panel);
    }
    for (; panel < end; panel++) {
      few_rows_block<R, 1>(weight, job, panel);
    }
  });
}

// Adds x times one tile to `sums`, [rows, 16] at a distance of `stride`.
void add_tile(const LinearRows& job, int k_begin, int k_end, const float* tile, float* sums, int64_t stride) {
  for_row_blocks(job.rows, [&]<int R>(int row) {
    RegisterBlock<R, 1> block;
    block.load_rows(sums + row * stride, stride);
    block.add_panels(job.x + int64_t{row} * job.k + k_begin, job.k, tile, 0, k_end - k_begin);
    block.store_rows(sums + row * stride, stride);
  });
}

template <class Weight>
void many_rows(const Weight& weight, const LinearRows& job, int64_t panel) {
  alignas(64) float scratch[kTileDepth * kPanel];
  alignas(64) float narrow_sums[kLinearRows * kPanel];
  bool whole = job.columns(panel) == kPanel;
  float* sums = whole ? job.out + panel * kPanel : narrow_sums;
  int64_t stride = whole ? job.n : kPanel;
  float start[kPanel];
  job.start(panel, start);
  for (int r = 0; r < job.rows; r++) {
    __builtin_memcpy(sums + r * stride, start, sizeof(start));
  }
  for (int k_begin = 0; k_begin < job.k; k_begin += kTileDepth) {
    int k_end = k_begin + kTileDepth < job.k ? k_begin + kTileDepth : job.k;
    add_tile(job, k_begin, k_end, weight.tile(panel, k_begin, k_end, scratch), sums, stride);
  }
  job.finish(panel, sums, stride);
}

// Units are (chunk of rows, panel), panels of one chunk side by side.
template <class Weight, class Args>
void linear_units(const Weight& weight, const Args& args, int64_t begin, int64_t end) {
  int64_t panels = linear_panels(args.n);
  while (begin < end) {
    int64_t first_row = begin / panels * kLinearRows;
    int64_t panel = begin % panels;
    int64_t count = panels - panel < end - begin ? panels - panel : end - begin;
    int64_t rows = args.m - first_row < kLinearRows ? args.m - first_row : kLinearRows;
    LinearRows job{
        .x = args.x + first_row * args.k,
        .bias = args.bias,
        .residual = args.residual ? args.residual + first_row * args.n : nullptr,
        .out = args.out + first_row * args.n,
        .rows = static_cast<int>(rows),
        .n = args.n,
        .k = args.k,
    };
    if (rows <= Weight::kDirectRows) {
      few_rows(weight, job, panel, panel + count);
    } else {
      for (int64_t p = panel; p < panel + count; p++) {
        many_rows(weight, job, p);
      }
    }
    begin += count;
  }
}

void linear(const Linear& args, int64_t begin, int64_t end) {
  with_element(args.weight_type, [&]<class T>() {
    linear_units(FloatPanels<T>{static_cast<const T*>(args.panels), args.k}, args, begin, end);
  });
}

template <int Bits>
void quantized_linear_bits(const QuantizedLinear& args, int64_t begin, int64_t end) {
  QuantizedPanels<Bits> weight{
      args.words, {args.scales, args.scale_type}, {args.biases, args.scale_type}, args.k, args.group_size};
  linear_units(weight, args, begin, end);
}

void quantized_linear(const QuantizedLinear& args, int64_t begin, int64_t end) {
  switch (args.bits) {
    case 2:
      return quantized_linear_bits<2>(args, begin, end);
    case 4:
      return quantized_linear_bits<4>(args, begin, end);
    default:
      return quantized_linear_bits<8>(args, begin, end);
  }
}

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
