#include "quantized_linear.h"

#include "cpu/instruction_level.h"
#include "evaluate.h"

namespace octavo {

namespace {

const Checks checks("quantized_linear");

}  // namespace

mx::array quantized_linear(const mx::array& x, const mx::array& words, const mx::array& scales, const mx::array& biases,
                           const std::optional<mx::array>& bias, int out_features, Quantization quantization) {
  check_quantized(checks, words, scales, biases, out_features, quantization);
  check_input(checks, x, quantized_in_features(words, quantization.bits));
  check_bias(checks, bias, out_features);
  auto stream = mx::default_stream(mx::Device::cpu);
  auto contiguous = [&](const mx::array& a) { return mx::contiguous(a, false, stream); };
  std::vector<mx::array> inputs{contiguous(x), contiguous(words), contiguous(scales), contiguous(biases)};
  if (bias) {
    inputs.push_back(contiguous(*bias));
  }
  mx::Shape shape = x.shape();
  shape.back() = out_features;
  return mx::array(std::move(shape), mx::float32, std::make_shared<QuantizedLinear>(stream, quantization),
                   std::move(inputs));
}

void QuantizedLinear::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  const mx::array& x = inputs[0];
  const mx::array& words = inputs[1];
  out.set_data(mx::allocator::malloc(out.nbytes()));
  cpu::QuantizedLinear args{
      .x = x.data<float>(),
      .words = words.data<uint32_t>(),
      .scales = inputs[2].data<void>(),
      .biases = inputs[3].data<void>(),
      .bias = inputs.size() > 4 ? inputs[4].data<float>() : nullptr,
      .out = out.data<float>(),
      .scale_type = element_of(inputs[2]),
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
  no_metal_kernel("quantized_linear");
}

}  // namespace octavo
