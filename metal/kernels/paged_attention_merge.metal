// paged_attention, after a split decode: one thread per number of the result merges the partial results
// [units, H_q, num_splits, D + 2] of its head.
#include "page_index.h"
#include "params.h"
#include "query_row.h"
#include "schedule.h"
#include "softmax.h"

template <typename Q, int D>
[[kernel]] void paged_attention_merge(
    const device float* partials [[buffer(0)]],
    const device int* context_lens [[buffer(1)]],
    const device int* query_start_locs [[buffer(2)]],
    const device float* sinks [[buffer(3)]],
    device Q* out [[buffer(4)]],
    constant AttentionParams& p [[buffer(5)]],
    uint3 thread_position [[thread_position_in_grid]]) {
  const int d = static_cast<int>(thread_position.x);
  const int head = static_cast<int>(thread_position.y);
  const int unit = static_cast<int>(thread_position.z);
  const DecodeQuery query = find_decode_query(unit, query_start_locs, context_lens, p);
  if (query.token < 0) {
    return;
  }
  constexpr int kStride = D + OCTAVO_PARTIAL_EXTRA;
  const device float* partial = partials + (static_cast<long>(unit) * p.num_q_heads + head) * p.num_splits * kStride;
  float top = -INFINITY;
  for (int s = 0; s < p.num_splits; s++) {
    top = max(top, partial[s * kStride + D]);
  }
  const float base = base_of(top);
  float value = 0.0f;
  float sum = 0.0f;
  for (int s = 0; s < p.num_splits; s++) {
    const float keep = fast::exp2(partial[s * kStride + D] - base);
    value += partial[s * kStride + d] * keep;
    sum += partial[s * kStride + D + 1] * keep;
  }
  const float scale = result_scale(top, sum, sink_of(sinks, head, p));
  out[(static_cast<long>(query.token) * p.num_q_heads + head) * D + d] = static_cast<Q>(value * scale);
}
