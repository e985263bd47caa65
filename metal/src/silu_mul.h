#pragma once

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

// gate / (1 + exp(-gate)) * up, where gate_up [T, 2 I] float32 holds gate and up side by side: [T, I]. CPU only.
mx::array silu_mul(const mx::array& gate_up);

class SiluMul : public mx::UnaryPrimitive {
 public:
  explicit SiluMul(mx::Stream stream) : UnaryPrimitive(stream) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "SiluMul"; }
};

}  // namespace octavo
