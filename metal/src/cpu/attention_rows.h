// The query rows of one unit of attention.
#pragma once

#include "cpu/simd.h"
#include "page_index.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

// Which query rows a unit covers, and where their numbers lie in q and out.
struct AttentionRows {
  const Attention& a;
  const AttentionUnit& unit;

  int count() const { return unit.num_rows; }
  int group() const { return a.num_q_heads / a.num_kv_heads; }
  int query(int r) const { return (unit.first_row + r) / group(); }
  int head(int r) const { return unit.kv_head * group() + (unit.first_row + r) % group(); }
  int width() const { return (a.head_dim + kPanel - 1) / kPanel * kPanel; }  // head_dim in whole panels

  int position(int r) const { return query_position(a.context_lens[unit.row], unit.num_queries, query(r)); }

  int64_t element_of_q(int r) const {
    return (int64_t{unit.first_query} + query(r)) * a.q_stride + int64_t{head(r)} * a.head_dim;
  }

  int64_t element_of_out(int r) const {
    return ((int64_t{unit.first_query} + query(r)) * a.num_q_heads + head(r)) * a.head_dim;
  }
};

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
