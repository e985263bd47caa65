#include "embedding.h"

#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("embedding");

}  // namespace

mx::array embedding(const mx::array& panels, const mx::array& ids, int out_features) {
  check_panels(checks, panels, out_features);
  check_ids(checks, ids);
  auto stream = mx::default_stream(mx::Device::cpu);
  return mx::array({ids.shape(0), panels.shape(1)}, mx::float32, std::make_shared<Embedding>(stream, out_features),
                   {panels, ids});
}

mx::array quantized_embedding(const mx::array& words, const mx::array& scales, const mx::array& biases,
                              const mx::array& ids, int out_features, Quantization quantization) {
  check_quantized(checks, words, scales, biases, out_features, quantization);
  check_ids(checks, ids);
  auto stream = mx::default_stream(mx::Device::cpu);
  return mx::array({ids.shape(0), quantized_in_features(words, quantization.bits)}, mx::float32,
                   std::make_shared<QuantizedEmbedding>(stream, out_features, quantization),
                   {words, scales, biases, ids});
}

void Embedding::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  mx::array panels = row_contiguous(inputs[0], stream());
  mx::array ids = row_contiguous(inputs[1], stream());
  allocate(out);
  cpu::Embedding args{
      .panels = panels.data<void>(),
      .ids = ids.data<int32_t>(),
      .out = out.data<float>(),
      .weight_type = element_of(panels),
      .n = out_features_,
      .k = out.shape(1),
  };
  dispatch_kernel(stream(), cpu::kernels().embedding, args, out.shape(0), int64_t{4} * args.k);
}

void Embedding::eval_gpu(const std::vector<mx::array>&, mx::array&) {
  refuse_gpu("embedding");
}

void QuantizedEmbedding::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  mx::array words = row_contiguous(inputs[0], stream());
  mx::array scales = row_contiguous(inputs[1], stream());
  mx::array biases = row_contiguous(inputs[2], stream());
  mx::array ids = row_contiguous(inputs[3], stream());
  allocate(out);
  cpu::QuantizedEmbedding args{
      .words = words.data<uint32_t>(),
      .scales = scales.data<void>(),
      .biases = biases.data<void>(),
      .ids = ids.data<int32_t>(),
      .out = out.data<float>(),
      .scale_type = element_of(scales),
      .n = out_features_,
      .k = out.shape(1),
      .bits = quantization_.bits,
      .group_size = quantization_.group_size,
  };
  dispatch_kernel(stream(), cpu::kernels().quantized_embedding, args, out.shape(0), int64_t{4} * args.k);
}

void QuantizedEmbedding::eval_gpu(const std::vector<mx::array>&, mx::array&) {
  refuse_gpu("embedding");
}

}  // namespace octavo
