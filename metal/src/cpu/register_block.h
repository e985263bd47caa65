// R rows times P panels of accumulators that live in registers.
//
// Every output is one chain acc = fma(x[k], w[k], acc) in the order of k, whatever R and P are: that is why a
// row's result does not depend on how many rows or panels are worked on together.
#pragma once

#include "cpu/simd.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

// Calls work.template operator()<R>(first) for blocks of R rows, as even as can be: 8 rows are 4 + 4, not 6 + 2.
template <class Work>
inline void for_row_blocks(int rows, const Work& work) {
  int blocks = (rows + kMaxRows - 1) / kMaxRows;
  for (int i = 0; i < blocks; i++) {
    int first = rows * i / blocks;
    with_rows(rows * (i + 1) / blocks - first, [&]<int R>() { work.template operator()<R>(first); });
  }
}

template <int R, int P>
struct RegisterBlock {
  Vec acc[R][P * kVecs];

  // Element (r, 16 * p + lane) at from[r * stride + 16 * p + lane].
  void load_rows(const float* from, int64_t stride) {
    for (int r = 0; r < R; r++) {
      for (int v = 0; v < P * kVecs; v++) {
        acc[r][v] = load(from + r * stride + v * kWidth);
      }
    }
  }

  void store_rows(float* to, int64_t stride) const {
    for (int r = 0; r < R; r++) {
      for (int v = 0; v < P * kVecs; v++) {
        store(to + r * stride + v * kWidth, acc[r][v]);
      }
    }
  }

  // One step along k: x has one number per row, at a distance of x_stride.
  void add(const float* x, int64_t x_stride, const Vec (&w)[P * kVecs]) {
    for (int r = 0; r < R; r++) {
      Vec xr = set(x[r * x_stride]);
      for (int v = 0; v < P * kVecs; v++) {
        acc[r][v] = fma(xr, w[v], acc[r][v]);
      }
    }
  }

  // k steps over P panels of numbers, each [k, 16], panel_stride numbers apart.
  template <class T>
  void add_panels(const float* x, int64_t x_stride, const T* panels, int64_t panel_stride, int k) {
    for (int i = 0; i < k; i++) {
      Vec w[P * kVecs];
      for (int v = 0; v < P * kVecs; v++) {
        w[v] = load(panels + (v / kVecs) * panel_stride + int64_t{i} * kPanel + (v % kVecs) * kWidth);
      }
      add(x + i, x_stride, w);
    }
  }
};

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
