#include "paged_attention.h"

#include <cstring>
#include <memory>
#include <vector>

#include "checks.h"
#include "cpu/attention_plan.h"
#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("paged_attention");

// Runs on the stream's thread: how the work is cut depends on the lengths in the batch.
void attend(cpu::Attention args, size_t out_bytes) {
  const cpu::Kernels& kernels = cpu::kernels();
  cpu::ThreadPool& pool = cpu::thread_pool();
  cpu::AttentionPlan plan = cpu::plan_attention(args, pool.num_threads());
  auto partials = std::make_unique_for_overwrite<float[]>(plan.partial_floats);
  args.units = plan.units.data();
  args.merges = plan.merges.data();
  args.partials = partials.get();
  if (plan.covered_tokens < args.num_tokens) {
    std::memset(args.out, 0, out_bytes);
  }
  auto run = [&](auto kernel, const std::vector<cpu::AttentionUnit>& units) {
    int64_t count = static_cast<int64_t>(units.size());
    int64_t piece = 1 + count * kPieceOfWork / (plan.work + 1);
    pool.run(count, piece, [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  };
  run(kernels.paged_attention, plan.units);
  run(kernels.paged_attention_merge, plan.merges);
}

void check_pages(const mx::array& q, const mx::array& key_pages, const mx::array& value_pages) {
  checks.rank("q", q, 3, "[T, H_q, D]");
  checks.floating("q", q);
  checks.rank("key_pages", key_pages, 4, "[P, H_kv, page_size, D]");
  checks.floating("key_pages", key_pages);
  checks.not_empty("key_pages", key_pages);
  checks.size("key_pages", key_pages, 3, q.shape(2), "D");
  checks.expect(q.shape(2) <= cpu::kMaxHeadDim, q.shape(2), "a head size D of at most ", cpu::kMaxHeadDim);
  checks.expect(value_pages.shape() == key_pages.shape() && value_pages.dtype() == key_pages.dtype(), value_pages,
                "value_pages like key_pages, ", key_pages);
  checks.expect(q.shape(1) % key_pages.shape(1) == 0, q.shape(1),
                "H_q to be a multiple of H_kv = ", key_pages.shape(1));
  checks.row_contiguous("key_pages", key_pages);
  checks.row_contiguous("value_pages", value_pages);
}

void check_rows(const mx::array& block_table, const mx::array& context_lens, const mx::array& query_start_locs) {
  checks.rank("block_table", block_table, 2, "[B, max_pages]");
  checks.dtype("block_table", block_table, mx::int32);
  checks.rank("context_lens", context_lens, 1, "[B]");
  checks.dtype("context_lens", context_lens, mx::int32);
  checks.size("context_lens", context_lens, 0, block_table.shape(0), "B");
  checks.rank("query_start_locs", query_start_locs, 1, "[B + 1]");
  checks.dtype("query_start_locs", query_start_locs, mx::int32);
  checks.size("query_start_locs", query_start_locs, 0, block_table.shape(0) + 1, "B + 1");
}

void check_options(const mx::array& q, const AttentionOptions& options, const std::optional<mx::array>& sinks) {
  if (options.window) {
    checks.expect(*options.window >= 1, *options.window, "window of at least 1");
  }
  if (options.soft_cap) {
    checks.expect(*options.soft_cap > 0, *options.soft_cap, "soft_cap above 0");
  }
  if (sinks) {
    checks.rank("sinks", *sinks, 1, "[H_q]");
    checks.floating("sinks", *sinks);
    checks.size("sinks", *sinks, 0, q.shape(1), "H_q");
  }
}

}  // namespace

mx::array paged_attention(const mx::array& q, const mx::array& key_pages, const mx::array& value_pages,
                          const mx::array& block_table, const mx::array& context_lens,
                          const mx::array& query_start_locs, const AttentionOptions& options,
                          const std::optional<mx::array>& sinks) {
  check_pages(q, key_pages, value_pages);
  check_rows(block_table, context_lens, query_start_locs);
  check_options(q, options, sinks);
  auto stream = mx::to_stream({});
  std::vector<mx::array> inputs{
      q, key_pages, value_pages, laid_out(block_table, stream), laid_out(context_lens, stream),
      laid_out(query_start_locs, stream)};
  if (sinks) {
    inputs.push_back(laid_out(mx::astype(*sinks, mx::float32, stream), stream));
  }
  return mx::array(q.shape(), q.dtype(), std::make_shared<PagedAttention>(stream, options), std::move(inputs));
}

void PagedAttention::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  TokenRows q = token_rows(inputs[0], stream());
  const mx::array& key_pages = inputs[1];
  const mx::array& value_pages = inputs[2];
  mx::array block_table = row_contiguous(inputs[3], stream());
  checks.row_contiguous("key_pages", key_pages);
  checks.row_contiguous("value_pages", value_pages);
  allocate(out);
  cpu::Attention args{
      .q = q.array.data<void>(),
      .key_pages = key_pages.data<void>(),
      .value_pages = value_pages.data<void>(),
      .block_table = block_table.data<int32_t>(),
      .context_lens = row_contiguous(inputs[4], stream()).data<int32_t>(),
      .query_start_locs = row_contiguous(inputs[5], stream()).data<int32_t>(),
      .sinks = inputs.size() > 6 ? row_contiguous(inputs[6], stream()).data<float>() : nullptr,
      .out = out.data<void>(),
      .units = nullptr,
      .merges = nullptr,
      .q_stride = q.stride,
      .partials = nullptr,
      .q_type = element_of(out),
      .page_type = element_of(key_pages),
      .num_tokens = out.shape(0),
      .num_rows = block_table.shape(0),
      .max_pages = block_table.shape(1),
      .num_pages = key_pages.shape(0),
      .num_q_heads = out.shape(1),
      .num_kv_heads = key_pages.shape(1),
      .page_size = key_pages.shape(2),
      .head_dim = key_pages.shape(3),
      .window = options_.window.value_or(0),
      .scale = options_.scale,
      .soft_cap = options_.soft_cap.value_or(0.0f),
  };
  mx::cpu::get_command_encoder(stream()).dispatch([args, bytes = out.nbytes()] { attend(args, bytes); });
}

}  // namespace octavo
