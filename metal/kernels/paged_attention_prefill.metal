// paged_attention, prefill schedule: a threadgroup serves a block of 32 query rows of one KV head. Query row r of a
// row of the batch is head r % G of query r / G, where G is the number of query heads per KV head, so the keys are
// read once for all heads of the group. Each SIMD-group computes 8 rows with 8x8 matrix products in float.
//
//   for each tile of keys:  find the pages | load K | S = Q K^T, mask, online softmax | load V | O = O + S V
//
// The bars are barriers: K and V share one tile of threadgroup memory. The next round needs none before it: it writes
// the tile only after its first bar, and who wrote the places of the pages has passed the last one.
#include "page_index.h"
#include "params.h"
#include "query_row.h"
#include "schedule.h"
#include "softmax.h"

constant constexpr int kPrefillThreads = OCTAVO_PREFILL_SIMDGROUPS * OCTAVO_SIMD_WIDTH;

// A lane holds two neighbouring numbers of an 8x8 matrix: their row, and the column of the first.
inline int fragment_row(uint lane) {
  return static_cast<int>(((lane >> 4) << 2) + ((lane >> 1) & 3));
}

inline int fragment_column(uint lane) {
  return static_cast<int>(((lane >> 3) & 1) * 4 + (lane & 1) * 2);
}

// d = d + a b, each an 8x8 matrix spread over the SIMD-group.
inline void multiply_add(thread float2& d, float2 a, float2 b) {
  simdgroup_matrix<float, 8, 8> left;
  simdgroup_matrix<float, 8, 8> right;
  simdgroup_matrix<float, 8, 8> sum;
  reinterpret_cast<thread float2&>(left.thread_elements()) = a;
  reinterpret_cast<thread float2&>(right.thread_elements()) = b;
  reinterpret_cast<thread float2&>(sum.thread_elements()) = d;
  simdgroup_multiply_accumulate(sum, left, right, sum);
  d = reinterpret_cast<thread float2&>(sum.thread_elements());
}

// The lanes of a row of a matrix differ in bits 0 and 3 of their number.
inline float row_max(float x) {
  x = max(x, simd_shuffle_xor(x, static_cast<ushort>(1)));
  return max(x, simd_shuffle_xor(x, static_cast<ushort>(8)));
}

inline float row_sum(float x) {
  x += simd_shuffle_xor(x, static_cast<ushort>(1));
  return x + simd_shuffle_xor(x, static_cast<ushort>(8));
}

// The block's part of a row of the batch. num_rows 0: nothing to do.
struct QueryBlock {
  int row;
  int first_token;  // of the row
  int num_queries;  // of the row
  int first_row;    // query row
  int num_rows;
  int context_len;
};

inline QueryBlock find_block(int block, const device int* query_start_locs, const device int* context_lens,
                             constant AttentionParams& p) {
  const int heads_per_kv = p.num_q_heads / p.num_kv_heads;
  QueryBlock found = {0, 0, 0, 0, 0, 0};
  found.row =
      find_row(query_start_locs, p.num_rows, p.num_tokens, block, heads_per_kv, OCTAVO_PREFILL_ROWS, 1);
  if (found.row < 0) {
    return found;
  }
  found.first_token = row_start(query_start_locs, found.row, p.num_tokens);
  found.num_queries = row_start(query_start_locs, found.row + 1, p.num_tokens) - found.first_token;
  if (found.num_queries < p.min_queries) {
    return found;
  }
  const int first = first_block(found.first_token, found.row, heads_per_kv, OCTAVO_PREFILL_ROWS);
  found.first_row = (block - first) * OCTAVO_PREFILL_ROWS;
  found.num_rows = clamp(found.num_queries * heads_per_kv - found.first_row, 0, OCTAVO_PREFILL_ROWS);
  found.context_len = context_lens[found.row];
  return found;
}

inline int block_position(QueryBlock block, int query_row, int heads_per_kv) {
  return query_position(block.context_len, block.num_queries, query_row / heads_per_kv);
}

// Tokens before the first row and after the last one belong to no row: zeros.
template <typename Q, int D>
inline void clear_strays(device Q* out, const device int* query_start_locs, uint3 group, uint thread_index,
                         constant AttentionParams& p) {
  const int first = row_start(query_start_locs, 0, p.num_tokens);
  const int last = row_start(query_start_locs, p.num_rows, p.num_tokens);
  const int begin = static_cast<int>(group.x) * OCTAVO_PREFILL_ROWS;
  const int end = min(begin + OCTAVO_PREFILL_ROWS, p.num_tokens);
  const int width = p.num_q_heads / p.num_kv_heads * D;
  for (int token = begin; token < end; token++) {
    if (token >= first && token < last) {
      continue;
    }
    const long element = (static_cast<long>(token) * p.num_kv_heads + group.y) * width;
    for (int i = static_cast<int>(thread_index); i < width; i += kPrefillThreads) {
      out[element + i] = static_cast<Q>(0.0f);
    }
  }
}

// Rows of one KV head, from the pages to threadgroup memory; zeros for an absent one.
template <typename P, int D, int Keys, int Stride>
inline void load_tile(threadgroup P* tile, const device P* pages, const threadgroup long* elements,
                      uint thread_index) {
  constexpr int kWidth = 4;
  for (int i = static_cast<int>(thread_index) * kWidth; i < Keys * D; i += kPrefillThreads * kWidth) {
    const int key = i / D;
    const int d = i % D;
    const long element = elements[key];
    for (int j = 0; j < kWidth; j++) {
      tile[key * Stride + d + j] = element >= 0 ? pages[element + d + j] : static_cast<P>(0.0f);
    }
  }
}

// scores[j]: 8 query rows times keys [8 j, 8 j + 8) of the tile.
template <typename P, int D, int Keys, int Stride>
inline void score_tile(thread float2* scores, thread const float2* q, const threadgroup P* tile, uint lane) {
  const int row = fragment_row(lane);
  const int column = fragment_column(lane);
  for (int j = 0; j < Keys / 8; j++) {
    scores[j] = float2(0.0f, 0.0f);
    for (int d = 0; d < D / 8; d++) {
      const threadgroup P* key = tile + (j * 8 + column) * Stride + d * 8 + row;
      multiply_add(scores[j], q[d], float2(static_cast<float>(key[0]), static_cast<float>(key[Stride])));
    }
  }
}

// The positions of a tile that a query sees, the score cap and the mask.
template <int Keys>
inline void mask_tile(thread float2* scores, const threadgroup long* elements, int tile_position, int position,
                      uint lane, constant AttentionParams& p) {
  const int first = first_visible(position, p.window);
  for (int j = 0; j < Keys / 8; j++) {
    for (int e = 0; e < 2; e++) {
      const int key = j * 8 + fragment_column(lane) + e;
      const int at = tile_position + key;
      const bool seen = at >= first && at <= position && elements[key] >= 0;
      scores[j][e] = seen ? score_of(scores[j][e], p) : -INFINITY;
    }
  }
}

// Scores become weights. Returns what the values so far must be multiplied with.
template <int Keys>
inline float weigh_tile(thread float2* scores, thread float& top, thread float& sum) {
  float highest = top;
  for (int j = 0; j < Keys / 8; j++) {
    highest = max(highest, max(scores[j][0], scores[j][1]));
  }
  highest = row_max(highest);
  const float base = base_of(highest);
  const float keep = fast::exp2(top - base);
  float added = 0.0f;
  for (int j = 0; j < Keys / 8; j++) {
    for (int e = 0; e < 2; e++) {
      scores[j][e] = fast::exp2(scores[j][e] - base);
      added += scores[j][e];
    }
  }
  top = highest;
  sum = sum * keep + row_sum(added);
  return keep;
}

template <typename P, int D, int Keys, int Stride>
inline void add_tile(thread float2* values, thread const float2* weights, float keep, const threadgroup P* tile,
                     uint lane) {
  const int row = fragment_row(lane);
  const int column = fragment_column(lane);
  for (int d = 0; d < D / 8; d++) {
    values[d] *= keep;
    for (int j = 0; j < Keys / 8; j++) {
      const threadgroup P* value = tile + (j * 8 + row) * Stride + d * 8 + column;
      multiply_add(values[d], weights[j], float2(static_cast<float>(value[0]), static_cast<float>(value[1])));
    }
  }
}

template <typename Q, typename P, int D>
[[kernel]] void paged_attention_prefill(
    const device Q* q [[buffer(0)]],
    const device P* key_pages [[buffer(1)]],
    const device P* value_pages [[buffer(2)]],
    const device int* block_table [[buffer(3)]],
    const device int* context_lens [[buffer(4)]],
    const device int* query_start_locs [[buffer(5)]],
    const device float* sinks [[buffer(6)]],
    device Q* out [[buffer(7)]],
    constant AttentionParams& p [[buffer(8)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr int kTile = D > 128 ? 16 : 32;
  constexpr int kStride = D + 16 / static_cast<int>(sizeof(P));  // the padding spreads a column over the banks
  threadgroup P tile[kTile * kStride];
  threadgroup long elements[kTile];  // first number of each key's row; -1: absent

  const uint thread_index = simd * OCTAVO_SIMD_WIDTH + lane;
  clear_strays<Q, D>(out, query_start_locs, group, thread_index, p);
  const QueryBlock block = find_block(static_cast<int>(group.x), query_start_locs, context_lens, p);
  if (block.num_rows == 0) {
    return;  // the whole threadgroup
  }
  const int heads_per_kv = p.num_q_heads / p.num_kv_heads;
  const int kv_head = static_cast<int>(group.y);
  const int my_row = static_cast<int>(simd) * 8 + fragment_row(lane);
  const bool present = my_row < block.num_rows;
  const int query_row = block.first_row + (present ? my_row : 0);
  const int position = block_position(block, query_row, heads_per_kv);
  const int token = block.first_token + query_row / heads_per_kv;
  const int head = kv_head * heads_per_kv + query_row % heads_per_kv;
  const int column = fragment_column(lane);
  const long to = (static_cast<long>(token) * p.num_q_heads + head) * D + column;

  float2 queries[D / 8];
  float2 values[D / 8];
  for (int d = 0; d < D / 8; d++) {
    for (int e = 0; e < 2; e++) {
      const long from = query_element(token, head, d * 8 + column + e, p);
      queries[d][e] = present ? static_cast<float>(q[from]) * p.query_scale : 0.0f;
    }
    values[d] = float2(0.0f, 0.0f);
  }
  float top = -INFINITY;
  float sum = 0.0f;
  const int first = first_visible(block_position(block, block.first_row, heads_per_kv), p.window);
  const int last = block_position(block, block.first_row + block.num_rows - 1, heads_per_kv);
  for (int at = first; at <= last; at += kTile) {
    if (thread_index < kTile) {
      const int mine = at + static_cast<int>(thread_index);
      const int page = mine <= last ? page_at(block_table, block.row, mine, p) : -1;
      const int offset = slot_offset(mine, p.page_size);
      elements[thread_index] =
          page >= 0 ? page_element(page, kv_head, offset, p.num_kv_heads, p.page_size, D) : -1;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    load_tile<P, D, kTile, kStride>(tile, key_pages, elements, thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float2 weights[kTile / 8];
    score_tile<P, D, kTile, kStride>(weights, queries, tile, lane);
    mask_tile<kTile>(weights, elements, at, position, lane, p);
    const float keep = weigh_tile<kTile>(weights, top, sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    load_tile<P, D, kTile, kStride>(tile, value_pages, elements, thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    add_tile<P, D, kTile, kStride>(values, weights, keep, tile, lane);
  }
  if (!present) {
    return;
  }
  const float scale = result_scale(top, sum, sink_of(sinks, head, p));
  for (int d = 0; d < D / 8; d++) {
    for (int e = 0; e < 2; e++) {
      out[to + d * 8 + e] = static_cast<Q>(values[d][e] * scale);
    }
  }
}
