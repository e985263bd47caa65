#pragma once

#include "linear_layer.h"
#include "mlx/mlx.h"
#include "mlx/primitives.h"
#include "packed_weight.h"

namespace octavo {

// Like linear, with weights scale * q + bias where q are the unsigned `bits`-wide fields of words
// [ceil(N / 16), K * bits / 32, 16], lowest bits first, and scales and biases [ceil(N / 16), K / group_size, 16].
mx::array quantized_linear(const mx::array& x, const mx::array& words, const mx::array& scales, const mx::array& biases,
                           const LinearExtras& extras, int out_features, Quantization quantization);

class QuantizedLinear : public mx::UnaryPrimitive {
 public:
  QuantizedLinear(mx::Stream stream, Quantization quantization, const LinearLayer& layer)
      : UnaryPrimitive(stream), quantization_(quantization), layer_(layer) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "QuantizedLinear"; }

 private:
  Quantization quantization_;
  LinearLayer layer_;
};

}  // namespace octavo
