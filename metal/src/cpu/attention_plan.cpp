#include "cpu/attention_plan.h"

#include <algorithm>

#include "page_index.h"

namespace octavo::cpu {

namespace {

int64_t cost_of(const AttentionUnit& unit) {
  // Loading a tile of keys costs about as much as a few rows of products.
  return int64_t{unit.num_partitions} * (unit.num_rows + 4);
}

// The blocks of one row of the batch, each with all its partitions.
void add_blocks(const Attention& args, int row, std::vector<AttentionUnit>& blocks) {
  int first = std::clamp(args.query_start_locs[row], 0, args.num_tokens);
  int last = std::clamp(args.query_start_locs[row + 1], first, args.num_tokens);
  int group = args.num_q_heads / args.num_kv_heads;
  int num_queries = last - first;
  for (int head = 0; head < args.num_kv_heads; head++) {
    for (int first_row = 0; first_row < num_queries * group; first_row += kAttentionRows) {
      int num_rows = std::min(kAttentionRows, num_queries * group - first_row);
      auto position = [&](int r) { return query_position(args.context_lens[row], num_queries, r / group); };
      int begin = first_visible(position(first_row), args.window);
      int end = std::max(position(first_row + num_rows - 1) + 1, begin);
      int first_partition = begin / kAttentionPartition;
      blocks.push_back({.row = row,
                        .kv_head = head,
                        .first_query = first,
                        .num_queries = num_queries,
                        .first_row = first_row,
                        .num_rows = num_rows,
                        .first_partition = first_partition,
                        .num_partitions = (end + kAttentionPartition - 1) / kAttentionPartition - first_partition,
                        .partial = -1});
    }
  }
}

void split(const AttentionUnit& block, int64_t floats_per_row, AttentionPlan& plan) {
  AttentionUnit merge = block;
  merge.partial = plan.partial_floats;
  plan.merges.push_back(merge);
  for (int p = 0; p < block.num_partitions; p++) {
    AttentionUnit piece = block;
    piece.first_partition += p;
    piece.num_partitions = 1;
    piece.partial = plan.partial_floats;
    plan.partial_floats += block.num_rows * floats_per_row;
    plan.units.push_back(piece);
  }
}

}  // namespace

AttentionPlan plan_attention(const Attention& args, int num_threads) {
  std::vector<AttentionUnit> blocks;
  AttentionPlan plan;
  for (int row = 0; row < args.num_rows; row++) {
    size_t before = blocks.size();
    add_blocks(args, row, blocks);
    plan.covered_tokens += blocks.size() > before ? blocks.back().num_queries : 0;
  }
  for (const AttentionUnit& block : blocks) {
    plan.cost += cost_of(block);
  }
  int64_t share = plan.cost / (4 * num_threads);
  int64_t floats_per_row = linear_panels(args.head_dim) * kPanel + 2;
  for (const AttentionUnit& block : blocks) {
    if (num_threads > 1 && block.num_partitions > 1 && cost_of(block) > share) {
      split(block, floats_per_row, plan);
    } else {
      plan.units.push_back(block);
    }
  }
  // Longest first: the last pieces to be handed out are short.
  std::stable_sort(plan.units.begin(), plan.units.end(),
                   [](const AttentionUnit& a, const AttentionUnit& b) { return cost_of(a) > cost_of(b); });
  return plan;
}

}  // namespace octavo::cpu
