// How the work of one paged_attention call is cut into units.
//
// Where there are many blocks of queries (prefill), each is one unit. Where few long contexts make the work
// (decode), they are cut along the context. The cut does not change a bit of the result.
#pragma once

#include <vector>

#include "cpu/kernels.h"

namespace octavo::cpu {

struct AttentionPlan {
  std::vector<AttentionUnit> units;
  std::vector<AttentionUnit> merges;
  int64_t partial_floats = 0;  // size of Attention::partials
  int64_t covered_tokens = 0;  // rows of q that belong to a sequence
  int64_t work = 0;            // multiply-adds / 8
};

AttentionPlan plan_attention(const Attention& args, int num_threads);

}  // namespace octavo::cpu
