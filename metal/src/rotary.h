#pragma once

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

// Turns each pair (x[i], x[i + D / 2]) of the heads x [T, H, D] float32 by the angle whose cosine and sine stand at
// cos[t, i] and sin[t, i], both [T, D / 2] (arXiv 2104.09864). CPU only.
mx::array rotary(const mx::array& x, const mx::array& cos, const mx::array& sin);

class Rotary : public mx::UnaryPrimitive {
 public:
  explicit Rotary(mx::Stream stream) : UnaryPrimitive(stream) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "Rotary"; }
};

}  // namespace octavo
