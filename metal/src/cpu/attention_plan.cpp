#include "cpu/attention_plan.h"

#include <algorithm>

#include "page_index.h"

namespace octavo::cpu {

namespace {

// Scores and values of some rows over some tokens. Loading a token costs about as much as a few rows of products.
int64_t work_of(const Attention& args, int64_t tokens, int64_t rows) {
  return tokens * (rows + 4) * args.head_dim * 2 / 8;
}

// One block of query rows, with all partitions that any of its rows sees.
AttentionUnit whole_block(const Attention& args, AttentionUnit block) {
  int group = args.num_q_heads / args.num_kv_heads;
  int context_len = args.context_lens[block.row];
  int first = query_position(context_len, block.num_queries, block.first_row / group);
  int last = query_position(context_len, block.num_queries, (block.first_row + block.num_rows - 1) / group);
  int begin = first_visible(first, args.window);
  int end = std::max(last + 1, begin);
  block.first_partition = begin / kAttentionPartition;
  block.num_partitions = (end + kAttentionPartition - 1) / kAttentionPartition - block.first_partition;
  block.work = work_of(args, end - begin, block.num_rows);
  block.partial = -1;
  return block;
}

void add_blocks(const Attention& args, int row, std::vector<AttentionUnit>& blocks) {
  int first = std::clamp(args.query_start_locs[row], 0, args.num_tokens);
  int last = std::clamp(args.query_start_locs[row + 1], first, args.num_tokens);
  int num_rows = (last - first) * (args.num_q_heads / args.num_kv_heads);
  for (int head = 0; head < args.num_kv_heads; head++) {
    for (int first_row = 0; first_row < num_rows; first_row += kAttentionRows) {
      AttentionUnit block{};
      block.row = row;
      block.kv_head = head;
      block.first_query = first;
      block.num_queries = last - first;
      block.first_row = first_row;
      block.num_rows = std::min(kAttentionRows, num_rows - first_row);
      blocks.push_back(whole_block(args, block));
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
    piece.work = block.work / block.num_partitions;
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
    plan.work += block.work;
  }
  int64_t share = plan.work / (4 * num_threads);
  int64_t floats_per_row = linear_panels(args.head_dim) * kPanel + 2;
  for (const AttentionUnit& block : blocks) {
    if (num_threads > 1 && block.num_partitions > 1 && block.work > share) {
      split(block, floats_per_row, plan);
    } else {
      plan.units.push_back(block);
    }
  }
  // Longest first: the last pieces to be handed out are short.
  std::stable_sort(plan.units.begin(), plan.units.end(),
                   [](const AttentionUnit& a, const AttentionUnit& b) { return a.work > b.work; });
  return plan;
}

}  // namespace octavo::cpu
