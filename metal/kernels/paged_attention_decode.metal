// paged_attention, decode schedule: a threadgroup serves one query and up to H query heads of one KV head, so a key
// is read once for H heads. Its SIMD-groups take 32 positions of the context each, in turn, and keep an online
// softmax; then they merge. With num_splits > 1 several threadgroups share a context and leave partial results.
//
// A lane holds D / 32 neighbouring numbers of a row. Four keys are scored at a time, so that their loads overlap.
#include "page_index.h"
#include "params.h"
#include "query_row.h"
#include "schedule.h"
#include "softmax.h"

constant constexpr int kKeys = 4;

template <int H, int E>
struct DecodeState {
  float q[H][E];
  float values[H][E];
  float top[H];
  float sum[H];
};

// The keys of one step: their pages (-1: none) and offsets in the page.
struct DecodeKeys {
  int page[kKeys];
  int offset[kKeys];
};

template <typename P, int D, int E>
inline void load_row(thread float* row, const device P* pages, long element, uint lane) {
  for (int i = 0; i < E; i++) {
    const int d = static_cast<int>(lane) * E + i;
    row[i] = d < D ? static_cast<float>(pages[element + d]) : 0.0f;
  }
}

template <typename Q, int D, int H, int E>
inline void start_state(thread DecodeState<H, E>& state, const device Q* q, int token, int first_head, int num_heads,
                        uint lane, constant AttentionParams& p) {
  for (int h = 0; h < H; h++) {
    for (int i = 0; i < E; i++) {
      const int d = static_cast<int>(lane) * E + i;
      const bool present = h < num_heads && d < D;
      const float number = present ? static_cast<float>(q[query_element(token, first_head + h, d, p)]) : 0.0f;
      state.q[h][i] = number * p.query_scale;
      state.values[h][i] = 0.0f;
    }
    state.top[h] = -INFINITY;
    state.sum[h] = 0.0f;
  }
}

// of[k][h]: first the scores of the keys, -inf for an absent one, then their weights.
template <int H>
struct DecodeWeights {
  float of[kKeys][H];
};

template <typename P, int D, int H, int E>
inline void score_keys(thread DecodeWeights<H>& weights, thread const DecodeState<H, E>& state,
                       const device P* key_pages, thread const DecodeKeys& keys, int kv_head, uint lane,
                       constant AttentionParams& p) {
  for (int k = 0; k < kKeys; k++) {
    float key[E] = {};
    if (keys.page[k] >= 0) {
      const long element = page_element(keys.page[k], kv_head, keys.offset[k], p.num_kv_heads, p.page_size, D);
      load_row<P, D, E>(key, key_pages, element, lane);
    }
    for (int h = 0; h < H; h++) {
      float product = 0.0f;
      for (int i = 0; i < E; i++) {
        product += state.q[h][i] * key[i];
      }
      product = simd_sum(product);
      weights.of[k][h] = keys.page[k] >= 0 ? score_of(product, p) : -INFINITY;
    }
  }
}

// Scores become weights; what the state holds is brought to the new top.
template <int H, int E>
inline void weigh_keys(thread DecodeWeights<H>& weights, thread DecodeState<H, E>& state) {
  for (int h = 0; h < H; h++) {
    float top = state.top[h];
    for (int k = 0; k < kKeys; k++) {
      top = max(top, weights.of[k][h]);
    }
    const float base = base_of(top);
    const float keep = fast::exp2(state.top[h] - base);
    float sum = state.sum[h] * keep;
    for (int k = 0; k < kKeys; k++) {
      weights.of[k][h] = fast::exp2(weights.of[k][h] - base);
      sum += weights.of[k][h];
    }
    for (int i = 0; i < E; i++) {
      state.values[h][i] *= keep;
    }
    state.top[h] = top;
    state.sum[h] = sum;
  }
}

template <typename P, int D, int H, int E>
inline void add_values(thread DecodeState<H, E>& state, thread const DecodeWeights<H>& weights,
                       const device P* value_pages, thread const DecodeKeys& keys, int kv_head, uint lane,
                       constant AttentionParams& p) {
  for (int k = 0; k < kKeys; k++) {
    if (keys.page[k] < 0) {
      continue;
    }
    const long element = page_element(keys.page[k], kv_head, keys.offset[k], p.num_kv_heads, p.page_size, D);
    float value[E];
    load_row<P, D, E>(value, value_pages, element, lane);
    for (int h = 0; h < H; h++) {
      for (int i = 0; i < E; i++) {
        state.values[h][i] += weights.of[k][h] * value[i];
      }
    }
  }
}

// Positions [begin, end), at most 32. A lane looks up the page of one position; the others ask it.
template <typename P, int D, int H, int E>
inline void attend(thread DecodeState<H, E>& state, const device P* key_pages, const device P* value_pages,
                   const device int* block_table, int row, int kv_head, int begin, int end, uint lane,
                   constant AttentionParams& p) {
  const int mine = begin + static_cast<int>(lane);
  const int page = mine < end ? page_at(block_table, row, mine, p) : -1;
  const int offset = slot_offset(mine, p.page_size);
  for (int i = 0; i < end - begin; i += kKeys) {
    DecodeKeys keys;
    for (int k = 0; k < kKeys; k++) {
      keys.page[k] = simd_shuffle(page, static_cast<ushort>(i + k));
      keys.offset[k] = simd_shuffle(offset, static_cast<ushort>(i + k));
    }
    DecodeWeights<H> weights;
    score_keys<P, D, H, E>(weights, state, key_pages, keys, kv_head, lane, p);
    weigh_keys<H, E>(weights, state);
    add_values<P, D, H, E>(state, weights, value_pages, keys, kv_head, lane, p);
  }
}

// Where a threadgroup's part of the visible positions begins and ends.
inline int2 split_range(int position, uint split, constant AttentionParams& p) {
  const int first = first_visible(position, p.window);
  const int share = (position + 1 - first + p.num_splits - 1) / p.num_splits;
  const int begin = first + share * static_cast<int>(split);
  return int2(begin, min(begin + share, position + 1));
}

// The SIMD-groups' states of one head, merged: number d of the values, the top and the sum.
template <int D>
inline float3 merge_simdgroups(const threadgroup float* values, const threadgroup float* tops,
                               const threadgroup float* sums, int d) {
  float top = -INFINITY;
  for (int g = 0; g < OCTAVO_DECODE_SIMDGROUPS; g++) {
    top = max(top, tops[g]);
  }
  const float base = base_of(top);
  float value = 0.0f;
  float sum = 0.0f;
  for (int g = 0; g < OCTAVO_DECODE_SIMDGROUPS; g++) {
    const float keep = fast::exp2(tops[g] - base);
    value += values[g * D + d] * keep;
    sum += sums[g] * keep;
  }
  return float3(value, top, sum);
}

// R is Q and result is out [T, H_q, D], or R is float and result is the partial results
// [units, H_q, num_splits, D + 2]: values, top, sum.
template <typename Q, typename P, typename R, int D, int H, bool Split>
[[kernel]] void paged_attention_decode(
    const device Q* q [[buffer(0)]],
    const device P* key_pages [[buffer(1)]],
    const device P* value_pages [[buffer(2)]],
    const device int* block_table [[buffer(3)]],
    const device int* context_lens [[buffer(4)]],
    const device int* query_start_locs [[buffer(5)]],
    const device float* sinks [[buffer(6)]],
    device R* result [[buffer(7)]],
    constant AttentionParams& p [[buffer(8)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr int E = (D + OCTAVO_SIMD_WIDTH - 1) / OCTAVO_SIMD_WIDTH;
  constexpr int kThreads = OCTAVO_DECODE_SIMDGROUPS * OCTAVO_SIMD_WIDTH;
  threadgroup float values[OCTAVO_DECODE_SIMDGROUPS * D];
  threadgroup float tops[OCTAVO_DECODE_SIMDGROUPS];
  threadgroup float sums[OCTAVO_DECODE_SIMDGROUPS];

  const DecodeQuery query = find_decode_query(static_cast<int>(group.y), query_start_locs, context_lens, p);
  if (query.token < 0) {
    return;  // the whole threadgroup
  }
  const int heads_per_kv = p.num_q_heads / p.num_kv_heads;
  const int parts = (heads_per_kv + H - 1) / H;
  const int kv_head = static_cast<int>(group.x) / parts;
  const int first_of_kv = static_cast<int>(group.x) % parts * H;
  const int num_heads = min(H, heads_per_kv - first_of_kv);
  const int first_head = kv_head * heads_per_kv + first_of_kv;

  DecodeState<H, E> state;
  const long first_row = static_cast<long>(query.token) * p.num_q_heads + first_head;
  start_state<Q, D, H, E>(state, q, query.token, first_head, num_heads, lane, p);
  const int2 range = split_range(query.position, group.z, p);
  for (int begin = range.x + static_cast<int>(simd) * OCTAVO_SIMD_WIDTH; begin < range.y; begin += kThreads) {
    const int end = min(begin + OCTAVO_SIMD_WIDTH, range.y);
    attend<P, D, H, E>(state, key_pages, value_pages, block_table, query.row, kv_head, begin, end, lane, p);
  }

  for (int h = 0; h < num_heads; h++) {
    for (int i = 0; i < E; i++) {
      const int d = static_cast<int>(lane) * E + i;
      if (d < D) {
        values[static_cast<int>(simd) * D + d] = state.values[h][i];
      }
    }
    if (lane == 0) {
      tops[simd] = state.top[h];
      sums[simd] = state.sum[h];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int d = static_cast<int>(simd * OCTAVO_SIMD_WIDTH + lane); d < D; d += kThreads) {
      const float3 merged = merge_simdgroups<D>(values, tops, sums, d);
      if (Split) {
        const long unit_head = static_cast<long>(group.y) * p.num_q_heads + first_head + h;
        device R* partial = result + (unit_head * p.num_splits + group.z) * (D + OCTAVO_PARTIAL_EXTRA);
        partial[d] = static_cast<R>(merged.x);
        if (d == 0) {
          partial[D] = static_cast<R>(merged.y);
          partial[D + 1] = static_cast<R>(merged.z);
        }
      } else {
        const float scale = result_scale(merged.y, merged.z, sink_of(sinks, first_head + h, p));
        result[(first_row + h) * D + d] = static_cast<R>(merged.x * scale);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}
