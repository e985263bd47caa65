// Up to 48 query rows of one sequence and one KV head, and what they have gathered so far.
//
// A query row is a (position, head of the group) pair. Each row runs its own online softmax over tiles of 64
// tokens, aligned to absolute positions, within a partition of 256. Rows share the loaded keys and values and
// nothing else, so a row's numbers do not depend on which rows stand beside it.
#pragma once

#include "cpu/attention_rows.h"
#include "cpu/register_block.h"
#include "cpu/token_tile.h"
#include "cpu/transpose.h"
#include "cpu/vector_math.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

constexpr int kTilePanels = kAttentionTile / kPanel;

// The visible tokens of one row inside a tile.
struct Range {
  int begin;
  int end;
  bool empty() const { return begin >= end; }
};

inline int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

struct AttentionBlock {
  const Attention& a;
  AttentionRows at;
  int rows;
  int head_dim;
  int width;

  int first[kAttentionRows];  // first visible position of each row
  int last[kAttentionRows];   // one past the last
  alignas(64) float q[kAttentionRows * kMaxHeadDim];  // [rows, head_dim], scaled

  float top[kAttentionRows];                                // largest score so far
  alignas(64) float sums[kAttentionRows * kPanel];          // [rows, 16]: sum of weights, per lane
  alignas(64) float values[kAttentionRows * kMaxHeadDim];   // [rows, width]: weighted sum of values
  alignas(64) float scores[kAttentionRows * kAttentionTile];
  alignas(64) float keys[kAttentionTile * kMaxHeadDim];     // kTilePanels panels [head_dim, 16]

  explicit AttentionBlock(const AttentionRows& block_rows)
      : a(block_rows.a), at(block_rows), rows(at.count()), head_dim(a.head_dim), width(at.width()) {
    for (int r = 0; r < rows; r++) {
      first[r] = first_visible(at.position(r), a.window);
      last[r] = at.position(r) + 1;
    }
    with_element(a.q_type, [&]<class T>() { load_queries<T>(); });
  }

  void clear() {
    for (int r = 0; r < rows; r++) {
      top[r] = -kInfinity;
    }
    __builtin_memset(sums, 0, sizeof(float) * rows * kPanel);
    __builtin_memset(values, 0, sizeof(float) * rows * width);
  }

  // Runs over the tokens of one partition. clear() first.
  template <class T>
  void add_partition(int partition) {
    int start = partition * kAttentionPartition;
    for (int tile = start; tile < start + kAttentionPartition; tile += kAttentionTile) {
      add_tile<T>(tile);
    }
  }

 private:
  template <class T>
  void load_queries() {
    for (int r = 0; r < rows; r++) {
      const T* from = static_cast<const T*>(a.q) + at.element_of_q(r);
      for (int d = 0; d < head_dim; d += kWidth) {
        int count = head_dim - d < kWidth ? head_dim - d : kWidth;
        store_part(q + r * head_dim + d, load_part(from + d, count) * a.scale, count);
      }
    }
  }

  Range visible(int r, int tile) const {
    return {clamp(first[r] - tile, 0, kAttentionTile), clamp(last[r] - tile, 0, kAttentionTile)};
  }

  // What any row of the block sees of a tile.
  Range needed(int tile) const {
    Range all{kAttentionTile, 0};
    for (int r = 0; r < rows; r++) {
      Range range = visible(r, tile);
      if (!range.empty()) {
        all.begin = range.begin < all.begin ? range.begin : all.begin;
        all.end = range.end > all.end ? range.end : all.end;
      }
    }
    return all;
  }

  template <class T>
  void add_tile(int tile) {
    Range all = needed(tile);
    if (all.empty()) {
      return;
    }
    TokenTile<T> tokens;
    tokens.locate(a, at.unit.row, at.unit.kv_head, tile, all.begin, all.end);
    int first_panel = all.begin / kPanel;
    int last_panel = (all.end + kPanel - 1) / kPanel;
    for (int p = first_panel; p < last_panel; p++) {
      const T* panel_rows[kPanel];
      __builtin_memcpy(panel_rows, tokens.keys + p * kPanel, sizeof(panel_rows));
      transpose_rows(panel_rows, head_dim, keys + p * head_dim * kPanel);
    }
    score(first_panel, last_panel);
    for (int r = 0; r < rows; r++) {
      soften(r, visible(r, tile), first_panel, last_panel, tokens.all_present ? nullptr : tokens.present);
    }
    add_values(tokens.values, tile);
  }

  // scores = q keys^T for the panels [begin, end).
  void score(int begin, int end) {
    for_row_blocks(rows, [&]<int R>(int r) {
      constexpr int P = panels_in_flight<R, float>() < kTilePanels ? panels_in_flight<R, float>() : kTilePanels;
      int p = begin;
      for (; p + P <= end; p += P) {
        score_block<R, P>(r, p);
      }
      for (; p < end; p++) {
        score_block<R, 1>(r, p);
      }
    });
  }

  template <int R, int P>
  void score_block(int r, int panel) {
    RegisterBlock<R, P> block{};
    block.add_panels(q + r * head_dim, head_dim, keys + panel * head_dim * kPanel, head_dim * kPanel, head_dim);
    block.store_rows(scores + r * kAttentionTile + panel * kPanel, kAttentionTile);
  }

  // One step of a row's online softmax: scores become weights, what was gathered before is rescaled.
  void soften(int r, Range range, int first_panel, int last_panel, const bool* present) {
    if (!sees_any(range, present)) {
      return;
    }
    float* row = scores + r * kAttentionTile;
    float new_top = max(top[r], mask(row, range, first_panel, last_panel, present));
    float shrink = exp_of_negative(top[r] - new_top);
    top[r] = new_top;
    float* sum = sums + r * kPanel;
    for (int v = 0; v < kVecs; v++) {
      Vec total = load(sum + v * kWidth) * shrink;
      for (int p = first_panel; p < last_panel; p++) {
        float* at = row + p * kPanel + v * kWidth;
        Vec weight = exp_of_negative(load(at) - new_top);
        store(at, weight);
        total = total + weight;
      }
      store(sum + v * kWidth, total);
    }
    rescale(r, shrink);
  }

  static bool sees_any(Range range, const bool* present) {
    bool any = !present && !range.empty();
    for (int j = range.begin; present && j < range.end; j++) {
      any = any || present[j];
    }
    return any;
  }

  // Caps the scores, hides what the row does not see and returns the largest.
  float mask(float* row, Range range, int first_panel, int last_panel, const bool* present) const {
    int begin = first_panel * kPanel;
    int end = last_panel * kPanel;
    if (a.soft_cap > 0) {
      for (int j = begin; j < end; j += kWidth) {
        store(row + j, tanh(load(row + j) / a.soft_cap) * a.soft_cap);
      }
    }
    if (range.begin > begin || range.end < end) {
      hide_outside(row, range, begin, end);
    }
    for (int j = begin; present && j < end; j++) {
      row[j] = present[j] ? row[j] : -kInfinity;
    }
    Vec top = load(row + begin);
    for (int j = begin + kWidth; j < end; j += kWidth) {
      top = max(top, load(row + j));
    }
    return largest(top);
  }

  static void hide_outside(float* row, Range range, int begin, int end) {
    Int lanes = lane_numbers();
    for (int j = begin; j < end; j += kWidth) {
      Int seen = Int((lanes + j >= range.begin) & (lanes + j < range.end));
      store(row + j, select(seen, load(row + j), set(-kInfinity)));
    }
  }

  void rescale(int r, float shrink) {
    if (shrink == 1.0f) {
      return;
    }
    for (int d = 0; d < width; d += kWidth) {
      float* at = values + r * width + d;
      store(at, load(at) * shrink);
    }
  }

  // Adds weight times value, token after token, for every row.
  template <class T>
  void add_values(const T* const* tokens, int tile) {
    for_row_blocks(rows, [&]<int R>(int r) { add_values_of_rows<R>(tokens, tile, r); });
  }

  // Rows of a register block take the tokens that all of them see together, and the few at either end one row at a
  // time: an unseen value is not even multiplied by zero.
  template <int R, class T>
  void add_values_of_rows(const T* const* tokens, int tile, int r) {
    Range shared{0, kAttentionTile};
    for (int i = r; i < r + R; i++) {
      Range range = visible(i, tile);
      shared.begin = range.begin > shared.begin ? range.begin : shared.begin;
      shared.end = range.end < shared.end ? range.end : shared.end;
    }
    if (shared.empty()) {
      for (int i = r; i < r + R; i++) {
        add_values_block<1>(tokens, i, visible(i, tile));
      }
      return;
    }
    for (int i = r; i < r + R; i++) {
      add_values_block<1>(tokens, i, {visible(i, tile).begin, shared.begin});
    }
    add_values_block<R>(tokens, r, shared);
    for (int i = r; i < r + R; i++) {
      add_values_block<1>(tokens, i, {shared.end, visible(i, tile).end});
    }
  }

  template <int R, class T>
  void add_values_block(const T* const* tokens, int r, Range range) {
    if (range.empty()) {
      return;
    }
    constexpr int P = panels_in_flight<R, T>();
    int d = 0;
    for (; d + P * kPanel <= head_dim; d += P * kPanel) {
      add_value_panels<R, P>(tokens, r, range, d);
    }
    for (; d + kPanel <= head_dim; d += kPanel) {
      add_value_panels<R, 1>(tokens, r, range, d);
    }
    if (d < head_dim) {
      add_value_tail<R>(tokens, r, range, d);
    }
  }

  template <int R, int P, class T>
  void add_value_panels(const T* const* tokens, int r, Range range, int d) {
    RegisterBlock<R, P> block;
    block.load_rows(values + r * width + d, width);
    for (int j = range.begin; j < range.end; j++) {
      Vec v[P * kVecs];
      for (int i = 0; i < P * kVecs; i++) {
        v[i] = load(tokens[j] + d + i * kWidth);
      }
      block.add(scores + r * kAttentionTile + j, kAttentionTile, v);
    }
    block.store_rows(values + r * width + d, width);
  }

  // The last head_dim % 16 numbers.
  template <int R, class T>
  void add_value_tail(const T* const* tokens, int r, Range range, int d) {
    RegisterBlock<R, 1> block;
    block.load_rows(values + r * width + d, width);
    for (int j = range.begin; j < range.end; j++) {
      Vec v[kVecs];
      for (int i = 0; i < kVecs; i++) {
        v[i] = load_part(tokens[j] + d + i * kWidth, clamp(head_dim - d - i * kWidth, 0, kWidth));
      }
      block.add(scores + r * kAttentionTile + j, kAttentionTile, v);
    }
    block.store_rows(values + r * width + d, width);
  }
};

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
