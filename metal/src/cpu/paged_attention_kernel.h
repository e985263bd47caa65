// paged_attention: partitions of a sequence gathered one by one, then merged in ascending order.
//
// A unit either covers all partitions of its block and writes the result, or some of them and leaves one partial
// result per partition for paged_attention_merge. Both ways merge the same numbers in the same order.
#pragma once

#include "cpu/attention_block.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

// The softmax state of some rows: top [rows], sum [rows], values [rows, width].
struct Partial {
  float* top;
  float* sum;
  float* values;

  static Partial at(float* p, int rows) { return {p, p + rows, p + 2 * rows}; }
};

void clear(const Partial& total, int rows, int width) {
  for (int r = 0; r < rows; r++) {
    total.top[r] = -kInfinity;
    total.sum[r] = 0.0f;
  }
  __builtin_memset(total.values, 0, sizeof(float) * rows * width);
}

// total = total + part. A part that saw nothing (sum 0) changes nothing.
void merge(const Partial& total, const Partial& part, int rows, int width) {
  for (int r = 0; r < rows; r++) {
    if (part.sum[r] == 0.0f) {
      continue;
    }
    float top = max(total.top[r], part.top[r]);
    float keep = exp_of_negative(total.top[r] - top);
    float add = exp_of_negative(part.top[r] - top);
    total.top[r] = top;
    total.sum[r] = total.sum[r] * keep + part.sum[r] * add;
    for (int d = 0; d < width; d += kWidth) {
      float* at = total.values + r * width + d;
      store(at, fma(load(part.values + r * width + d), set(add), load(at) * keep));
    }
  }
}

// Divides by the sum of weights, the sink included, and writes the rows.
template <class T>
void write_rows(const AttentionRows& rows, const Partial& total) {
  const Attention& a = rows.a;
  for (int r = 0; r < rows.count(); r++) {
    float scale = 0.0f;
    if (total.sum[r] != 0.0f) {
      float sink = a.sinks ? a.sinks[rows.head(r)] : -kInfinity;
      float top = max(total.top[r], sink);
      float keep = exp_of_negative(total.top[r] - top);
      scale = keep / (total.sum[r] * keep + exp_of_negative(sink - top));
    }
    T* out = static_cast<T*>(a.out) + rows.element_of_out(r);
    for (int d = 0; d < a.head_dim; d += kWidth) {
      int count = a.head_dim - d < kWidth ? a.head_dim - d : kWidth;
      store_part(out + d, load(total.values + r * rows.width() + d) * scale, count);
    }
  }
}

// The partial result that the block holds after one partition.
void take(const AttentionBlock& block, const Partial& part) {
  for (int r = 0; r < block.rows; r++) {
    part.top[r] = block.top[r];
    part.sum[r] = sum_of_panel(block.sums + r * kPanel);
  }
  __builtin_memcpy(part.values, block.values, sizeof(float) * block.rows * block.width);
}

template <class T>
void attend_whole(AttentionBlock& block) {
  float top[kAttentionRows];
  float sum[kAttentionRows];
  float values[kAttentionRows * kMaxHeadDim];
  float part_sum[kAttentionRows];
  Partial total{top, sum, values};
  clear(total, block.rows, block.width);
  for (int p = 0; p < block.at.unit.num_partitions; p++) {
    block.clear();
    block.add_partition<T>(block.at.unit.first_partition + p);
    for (int r = 0; r < block.rows; r++) {
      part_sum[r] = sum_of_panel(block.sums + r * kPanel);
    }
    merge(total, {block.top, part_sum, block.values}, block.rows, block.width);
  }
  with_element(block.a.q_type, [&]<class Q>() { write_rows<Q>(block.at, total); });
}

template <class T>
void attend_some(AttentionBlock& block) {
  float* to = block.a.partials + block.at.unit.partial;
  for (int p = 0; p < block.at.unit.num_partitions; p++, to += block.rows * (block.width + 2)) {
    block.clear();
    block.add_partition<T>(block.at.unit.first_partition + p);
    take(block, Partial::at(to, block.rows));
  }
}

void paged_attention(const Attention& a, int64_t begin, int64_t end) {
  with_element(a.page_type, [&]<class T>() {
    for (int64_t i = begin; i < end; i++) {
      AttentionBlock block(AttentionRows{a, a.units[i]});
      if (a.units[i].partial < 0) {
        attend_whole<T>(block);
      } else {
        attend_some<T>(block);
      }
    }
  });
}

void paged_attention_merge(const Attention& a, int64_t begin, int64_t end) {
  float top[kAttentionRows];
  float sum[kAttentionRows];
  float values[kAttentionRows * kMaxHeadDim];
  Partial total{top, sum, values};
  for (int64_t i = begin; i < end; i++) {
    AttentionRows rows{a, a.merges[i]};
    int count = rows.count();
    clear(total, count, rows.width());
    float* from = a.partials + rows.unit.partial;
    for (int p = 0; p < rows.unit.num_partitions; p++, from += count * (rows.width() + 2)) {
      merge(total, Partial::at(from, count), count, rows.width());
    }
    with_element(a.q_type, [&]<class Q>() { write_rows<Q>(rows, total); });
  }
}

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
