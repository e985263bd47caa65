#include "quantized_linear.h"

#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("quantized_linear");

}  // namespace

mx::array quantized_linear(const mx::array& x, const mx::array& words, const mx::array& scales, const mx::array& biases,
                           const LinearExtras& extras, int out_features, Quantization quantization) {
  check_quantized(checks, words, scales, biases, out_features, quantization);
  std::vector<mx::array> inputs{x, words, scales, biases};
  int in_features = quantized_in_features(words, quantization.bits);
  LinearLayer layer = append_extras(checks, extras, in_features, out_features, inputs);
  auto stream = mx::default_stream(mx::Device::cpu);
  mx::Shape shape = x.shape();
  shape.back() = out_features;
  return mx::array(std::move(shape), mx::float32, std::make_shared<QuantizedLinear>(stream, quantization, layer),
                   std::move(inputs));
}

void QuantizedLinear::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  mx::array x = layer_input(inputs, layer_, stream());
  mx::array words = row_contiguous(inputs[1], stream());
  mx::array scales = row_contiguous(inputs[2], stream());
  mx::array biases = row_contiguous(inputs[3], stream());
  allocate(out);
  cpu::QuantizedLinear args{
      .x = x.data<float>(),
      .words = words.data<uint32_t>(),
      .scales = scales.data<void>(),
      .biases = biases.data<void>(),
      .bias = optional_input(inputs, layer_.bias, stream()),
      .residual = optional_input(inputs, layer_.residual, stream()),
      .out = out.data<float>(),
      .scale_type = element_of(scales),
      .m = static_cast<int64_t>(x.size()) / x.shape(-1),
      .n = out.shape(-1),
      .k = x.shape(-1),
      .bits = quantization_.bits,
      .group_size = quantization_.group_size,
  };
  dispatch_kernel(stream(), cpu::kernels().quantized_linear, args, cpu::linear_units(args.m, args.n),
                  cpu::linear_work_per_unit(args.m, args.k));
}

void QuantizedLinear::eval_gpu(const std::vector<mx::array>&, mx::array&) {
  refuse_gpu("quantized_linear");
}

}  // namespace octavo
