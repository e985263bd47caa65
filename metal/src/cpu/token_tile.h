// Up to 64 neighbouring tokens of one sequence and one head: where their keys and values lie.
#pragma once

#include "cpu/simd.h"
#include "page_index.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

// Stands in for a token that must not be read: the rows of K and V that no query sees.
alignas(64) constexpr float kZeroRow[kMaxHeadDim] = {};

template <class T>
struct TokenTile {
  const T* keys[kAttentionTile];
  const T* values[kAttentionTile];
  bool present[kAttentionTile];
  bool all_present;

  // Finds tokens [begin, end) of the tile that starts at position `start`; the others stay absent.
  void locate(const Attention& a, int row, int kv_head, int start, int begin, int end) {
    const T* nothing = reinterpret_cast<const T*>(kZeroRow);
    for (int j = 0; j < kAttentionTile; j++) {
      keys[j] = nothing;
      values[j] = nothing;
      present[j] = false;
    }
    all_present = true;
    for (int j = begin; j < end;) {
      int position = start + j;
      int offset = position % a.page_size;
      int run = a.page_size - offset < end - j ? a.page_size - offset : end - j;
      locate_run(a, page_at(a, row, position / a.page_size), kv_head, offset, j, run);
      j += run;
    }
  }

 private:
  // The page id at one place of a row's table, -1 if there is none.
  static int page_at(const Attention& a, int row, int index) {
    if (index >= a.max_pages) {
      return -1;
    }
    int page = a.block_table[int64_t{row} * a.max_pages + index];
    return page < a.num_pages ? page : -1;
  }

  // Pages lie anywhere, so the processor cannot guess what comes next.
  static void fetch(const T* row, int head_dim) {
    for (int d = 0; d < head_dim; d += 64 / static_cast<int>(sizeof(T))) {
      __builtin_prefetch(row + d);
    }
  }

  // `run` tokens side by side in one page.
  void locate_run(const Attention& a, int page, int kv_head, int offset, int j, int run) {
    if (page < 0) {
      all_present = false;
      return;
    }
    int64_t at = page_element(page, kv_head, offset, a.num_kv_heads, a.page_size, a.head_dim);
    for (int i = 0; i < run; i++, at += a.head_dim) {
      keys[j + i] = static_cast<const T*>(a.key_pages) + at;
      values[j + i] = static_cast<const T*>(a.value_pages) + at;
      present[j + i] = true;
      fetch(keys[j + i], a.head_dim);
      fetch(values[j + i], a.head_dim);
    }
  }
};

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
