#pragma once

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

// Writes row t of values [T, H_kv, D] at slot slot_mapping[t] of pages [P, H_kv, page_size, D].
// The result IS the buffer of pages: whoever holds the old array sees the new numbers.
mx::array paged_cache_update(const mx::array& pages, const mx::array& values, const mx::array& slot_mapping);

// is_equivalent stays false: two equal writes must both happen.
class PagedCacheUpdate : public mx::UnaryPrimitive {
 public:
  explicit PagedCacheUpdate(mx::Stream stream) : UnaryPrimitive(stream) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "PagedCacheUpdate"; }
};

}  // namespace octavo
