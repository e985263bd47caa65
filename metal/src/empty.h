#pragma once

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

// An array that nobody has written to. The allocator maps large ones without touching them, so memory becomes resident
// where it is first written.
mx::array empty(const mx::Shape& shape, mx::Dtype dtype);

class Empty : public mx::UnaryPrimitive {
 public:
  explicit Empty(mx::Stream stream) : UnaryPrimitive(stream) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "Empty"; }
};

}  // namespace octavo
