#pragma once

#include "mlx/mlx.h"
#include "mlx/primitives.h"
#include "packed_weight.h"

namespace octavo {

// Rows ids [T] of a packed weight [N, K], as float32 [T, K]: the matrix of a tied model is stored once. CPU only.
mx::array embedding(const mx::array& panels, const mx::array& ids, int out_features);
mx::array quantized_embedding(const mx::array& words, const mx::array& scales, const mx::array& biases,
                              const mx::array& ids, int out_features, Quantization quantization);

class Embedding : public mx::UnaryPrimitive {
 public:
  Embedding(mx::Stream stream, int out_features) : UnaryPrimitive(stream), out_features_(out_features) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "Embedding"; }

 private:
  int out_features_;
};

class QuantizedEmbedding : public mx::UnaryPrimitive {
 public:
  QuantizedEmbedding(mx::Stream stream, int out_features, Quantization quantization)
      : UnaryPrimitive(stream), out_features_(out_features), quantization_(quantization) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;

  const char* name() const override { return "QuantizedEmbedding"; }

 private:
  int out_features_;
  Quantization quantization_;
};

}  // namespace octavo
