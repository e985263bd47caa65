#include "checks.h"
#include "evaluate.h"
#include "gpu/commands.h"
#include "gpu/strides.h"
#include "launch/attention_launch.h"
#include "paged_attention.h"

namespace octavo {

namespace {

launch::AttentionShape shape_of(const mx::array& q, const mx::array& key_pages, const mx::array& block_table,
                                const AttentionOptions& options, bool has_sinks) {
  return {
      .q_type = element_of(q),
      .page_type = element_of(key_pages),
      .num_tokens = q.shape(0),
      .num_rows = block_table.shape(0),
      .max_pages = block_table.shape(1),
      .num_pages = key_pages.shape(0),
      .num_q_heads = q.shape(1),
      .num_kv_heads = key_pages.shape(1),
      .page_size = key_pages.shape(2),
      .head_dim = key_pages.shape(3),
      .q = gpu::strides_of(q),
      .window = options.window.value_or(0),
      .scale = options.scale,
      .soft_cap = options.soft_cap.value_or(0.0f),
      .has_sinks = has_sinks,
  };
}

}  // namespace

void PagedAttention::eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) {
  using launch::Buffer;
  Checks checks("paged_attention");
  checks.row_contiguous("key_pages", inputs[1]);
  checks.row_contiguous("value_pages", inputs[2]);
  const mx::array& q = inputs[0];
  bool has_sinks = inputs.size() > 6;
  auto plan = launch::launch_attention(shape_of(q, inputs[1], inputs[3], options_, has_sinks));
  allocate(out);
  gpu::Arrays arrays{{Buffer::q, q},
                     {Buffer::key_pages, inputs[1]},
                     {Buffer::value_pages, inputs[2]},
                     {Buffer::block_table, inputs[3]},
                     {Buffer::context_lens, inputs[4]},
                     {Buffer::query_start_locs, inputs[5]},
                     {Buffer::out, out}};
  if (has_sinks) {
    arrays.emplace(Buffer::sinks, inputs[6]);
  }
  if (plan.partial_floats > 0) {
    arrays.emplace(Buffer::partials, gpu::scratch(plan.partial_floats, stream()));
  }
  gpu::run(stream(), plan.launches, arrays);
}

}  // namespace octavo
