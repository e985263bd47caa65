#include "launch/attention_launch.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/params.h"
#include "kernels/schedule.h"
#include "launch/kernel_name.h"

namespace octavo::launch {

namespace {

constexpr float kLog2E = 1.44269504088896340736f;

// Decode is split until this many threadgroups are in flight: a few for each core of the largest chips.
constexpr int64_t kWantedGroups = 256;
// One threadgroup's pass over its SIMD-groups; a smaller piece leaves some of them idle.
constexpr int64_t kLeastSplit = OCTAVO_DECODE_SIMDGROUPS * OCTAVO_SIMD_WIDTH;
constexpr int64_t kMostSplits = 32;

constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

int heads_per_kv(const AttentionShape& shape) {
  return shape.num_q_heads / shape.num_kv_heads;
}

// Query heads that share one read of a key: registers for them allow four, or two of the widest.
int heads_per_group(const AttentionShape& shape) {
  int most = shape.head_dim > 128 ? 2 : 4;
  int heads = heads_per_kv(shape);
  return heads >= most ? most : heads == 3 ? 4 : heads;
}

AttentionParams params_of(const AttentionShape& shape) {
  bool capped = shape.soft_cap > 0.0f;
  return {
      .num_tokens = shape.num_tokens,
      .num_rows = shape.num_rows,
      .max_pages = shape.max_pages,
      .num_pages = shape.num_pages,
      .num_q_heads = shape.num_q_heads,
      .num_kv_heads = shape.num_kv_heads,
      .page_size = shape.page_size,
      .window = shape.window,
      .q_token_stride = shape.q.token,
      .q_head_stride = shape.q.head,
      .q_number_stride = shape.q.number,
      .num_splits = 1,
      .units_are_rows = 0,
      .min_queries = 1,
      .has_sinks = shape.has_sinks ? 1 : 0,
      .query_scale = capped ? shape.scale / shape.soft_cap : shape.scale * kLog2E,
      .score_cap = capped ? shape.soft_cap * kLog2E : 0.0f,
  };
}

std::vector<Argument> attention_arguments(const AttentionShape& shape, Buffer result) {
  // A kernel has no optional buffers: without sinks it is given an array that it does not read.
  Buffer sinks = shape.has_sinks ? Buffer::sinks : Buffer::context_lens;
  return {{Buffer::q},
          {Buffer::key_pages},
          {Buffer::value_pages},
          {Buffer::block_table},
          {Buffer::context_lens},
          {Buffer::query_start_locs},
          {sinks},
          {result, true}};
}

int splits_of(const AttentionShape& shape, int64_t groups) {
  int64_t longest = int64_t{shape.max_pages} * shape.page_size;
  if (shape.window > 0) {
    longest = std::min<int64_t>(longest, shape.window);
  }
  int64_t splits = std::min({kWantedGroups / groups, longest / kLeastSplit, kMostSplits});
  return static_cast<int>(std::max<int64_t>(splits, 1));
}

Launch decode(const AttentionShape& shape, const AttentionParams& params, Size grid) {
  bool split = params.num_splits > 1;
  std::string q = metal_type(shape.q_type);
  KernelName kernel =
      kernel_name("paged_attention_decode",
                  {q, metal_type(shape.page_type), split ? "float" : q, std::to_string(shape.head_dim),
                   std::to_string(heads_per_group(shape)), split ? "true" : "false"});
  return {
      .kernel = kernel.name,
      .instantiation = kernel.instantiation,
      .arguments = attention_arguments(shape, split ? Buffer::partials : Buffer::out),
      .params = bytes_of(params),
      .grid = grid,
      .group = {OCTAVO_DECODE_SIMDGROUPS * OCTAVO_SIMD_WIDTH, 1, 1},
  };
}

Launch merge(const AttentionShape& shape, const AttentionParams& params, uint32_t units) {
  KernelName kernel =
      kernel_name("paged_attention_merge", {metal_type(shape.q_type), std::to_string(shape.head_dim)});
  uint32_t width = static_cast<uint32_t>(shape.head_dim);
  return {
      .kernel = kernel.name,
      .instantiation = kernel.instantiation,
      .arguments = {{Buffer::partials},
                    {Buffer::context_lens},
                    {Buffer::query_start_locs},
                    {shape.has_sinks ? Buffer::sinks : Buffer::context_lens},
                    {Buffer::out, true}},
      .params = bytes_of(params),
      .grid = {width, static_cast<uint32_t>(shape.num_q_heads), units},
      .group = {width, 1, 1},
      .grid_counts_threads = true,
  };
}

void add_decode(const AttentionShape& shape, AttentionParams params, int units, AttentionLaunches& plan) {
  int parts = ceil_div(heads_per_kv(shape), heads_per_group(shape)) * shape.num_kv_heads;
  params.num_splits = splits_of(shape, int64_t{units} * parts);
  Size grid{static_cast<uint32_t>(parts), static_cast<uint32_t>(units), static_cast<uint32_t>(params.num_splits)};
  plan.launches.push_back(decode(shape, params, grid));
  if (params.num_splits > 1) {
    plan.launches.push_back(merge(shape, params, static_cast<uint32_t>(units)));
    plan.partial_floats =
        int64_t{units} * shape.num_q_heads * params.num_splits * (shape.head_dim + OCTAVO_PARTIAL_EXTRA);
  }
}

void add_prefill(const AttentionShape& shape, const AttentionParams& params, AttentionLaunches& plan) {
  KernelName kernel = kernel_name(
      "paged_attention_prefill",
      {metal_type(shape.q_type), metal_type(shape.page_type), std::to_string(shape.head_dim)});
  // Full blocks of all rows together, and one that is not full for each row.
  int blocks = shape.num_tokens * heads_per_kv(shape) / OCTAVO_PREFILL_ROWS + std::max(shape.num_rows, 1);
  plan.launches.push_back({
      .kernel = kernel.name,
      .instantiation = kernel.instantiation,
      .arguments = attention_arguments(shape, Buffer::out),
      .params = bytes_of(params),
      .grid = {static_cast<uint32_t>(blocks), static_cast<uint32_t>(shape.num_kv_heads), 1},
      .group = {OCTAVO_PREFILL_SIMDGROUPS * OCTAVO_SIMD_WIDTH, 1, 1},
  });
}

void check_head_dim(int head_dim) {
  if (head_dim % 8 != 0 || head_dim > cpu::kMaxHeadDim) {
    throw std::invalid_argument("[paged_attention] expected a head size that is a multiple of 8 and at most " +
                                std::to_string(cpu::kMaxHeadDim) + ", got " + std::to_string(head_dim));
  }
}

}  // namespace

AttentionLaunches launch_attention(const AttentionShape& shape) {
  check_head_dim(shape.head_dim);
  AttentionLaunches plan;
  if (shape.num_tokens == 0 || shape.num_q_heads == 0 || shape.head_dim == 0) {
    return plan;
  }
  AttentionParams params = params_of(shape);
  if (shape.num_tokens <= shape.num_rows) {
    add_decode(shape, params, shape.num_tokens, plan);
    return plan;
  }
  if (shape.num_rows > 1) {
    params.units_are_rows = 1;
    params.min_queries = 2;
    add_decode(shape, params, shape.num_rows, plan);
  }
  add_prefill(shape, params, plan);
  return plan;
}

}  // namespace octavo::launch
