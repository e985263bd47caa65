#pragma once

#include "linear_layer.h"
#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

// x [..., K] float32, normed if the extras say so, times a weight [N, K] packed as panels [ceil(N / 16), K, 16], plus
// bias and residual: [..., N] float32. CPU only.
mx::array linear(const mx::array& x, const mx::array& panels, const LinearExtras& extras, int out_features);

class Linear : public mx::UnaryPrimitive {
 public:
  Linear(mx::Stream stream, const LinearLayer& layer) : UnaryPrimitive(stream), layer_(layer) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "Linear"; }

 private:
  LinearLayer layer_;
};

}  // namespace octavo
