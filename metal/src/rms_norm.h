#pragma once

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

// x [..., D] float32 over the root mean square of its last axis, times weight [D] or, for heads, [H, D]. CPU only.
mx::array rms_norm(const mx::array& x, const mx::array& weight, float eps);

class RMSNorm : public mx::UnaryPrimitive {
 public:
  RMSNorm(mx::Stream stream, float eps) : UnaryPrimitive(stream), eps_(eps) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "RMSNorm"; }

 private:
  float eps_;
};

}  // namespace octavo
