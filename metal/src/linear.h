#pragma once

#include <optional>

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

// x [..., K] float32 times a weight [N, K] packed as panels [ceil(N / 16), K, 16]: [..., N] float32. CPU only.
mx::array linear(const mx::array& x, const mx::array& panels, const std::optional<mx::array>& bias, int out_features);

class Linear : public mx::UnaryPrimitive {
 public:
  explicit Linear(mx::Stream stream) : UnaryPrimitive(stream) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "Linear"; }
};

}  // namespace octavo
