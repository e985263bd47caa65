#pragma once

#include <optional>

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

struct AttentionOptions {
  float scale;
  std::optional<int> window;      // a query sees itself and the window - 1 tokens before it
  std::optional<float> soft_cap;  // scores become cap * tanh(score / cap)
};

// Causal attention of ragged queries q [T, H_q, D] over the pages that block_table [B, max_pages] names.
mx::array paged_attention(const mx::array& q, const mx::array& key_pages, const mx::array& value_pages,
                          const mx::array& block_table, const mx::array& context_lens,
                          const mx::array& query_start_locs, const AttentionOptions& options,
                          const std::optional<mx::array>& sinks);

class PagedAttention : public mx::UnaryPrimitive {
 public:
  PagedAttention(mx::Stream stream, AttentionOptions options) : UnaryPrimitive(stream), options_(options) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "PagedAttention"; }

 private:
  AttentionOptions options_;
};

}  // namespace octavo
