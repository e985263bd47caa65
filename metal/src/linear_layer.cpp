#include "linear_layer.h"

#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

size_t append(const std::optional<mx::array>& extra, std::vector<mx::array>& inputs) {
  if (!extra) {
    return 0;
  }
  inputs.push_back(*extra);
  return inputs.size() - 1;
}

void check_vector(const Checks& checks, const char* name, const std::optional<mx::array>& a, int size,
                  const char* letter) {
  if (a) {
    checks.rank(name, *a, 1, ("[" + std::string(letter) + "]").c_str());
    checks.dtype(name, *a, mx::float32);
    checks.size(name, *a, 0, size, letter);
  }
}

void check_residual(const Checks& checks, const mx::array& x, const mx::array& residual, int out_features) {
  mx::Shape shape = x.shape();
  shape.back() = out_features;
  checks.dtype("residual", residual, mx::float32);
  checks.expect(residual.shape() == shape, residual, "residual ", shape, " like the result");
}

}  // namespace

LinearLayer append_extras(const Checks& checks, const LinearExtras& extras, int in_features, int out_features,
                          std::vector<mx::array>& inputs) {
  const mx::array& x = inputs[0];
  checks.expect(x.ndim() >= 1, x, "x [..., K]");
  checks.dtype("x", x, mx::float32);
  checks.size("x", x, static_cast<int>(x.ndim()) - 1, in_features, "K");
  check_vector(checks, "bias", extras.bias, out_features, "N");
  check_vector(checks, "norm_weight", extras.norm_weight, in_features, "K");
  if (extras.residual) {
    check_residual(checks, x, *extras.residual, out_features);
  }
  LinearLayer layer;
  layer.norm_eps = extras.norm_eps;
  layer.bias = append(extras.bias, inputs);
  layer.norm_weight = append(extras.norm_weight, inputs);
  layer.residual = append(extras.residual, inputs);
  return layer;
}

mx::array layer_input(const std::vector<mx::array>& inputs, const LinearLayer& layer, mx::Stream stream) {
  mx::array x = row_contiguous(inputs[0], stream);
  if (!layer.norm_weight) {
    return x;
  }
  mx::array normed(x.shape(), mx::float32, nullptr, {});
  allocate(normed);
  mx::cpu::get_command_encoder(stream).add_temporary(normed);
  int dim = x.shape(-1);
  cpu::RMSNorm args{
      .x = x.data<float>(),
      .weight = row_contiguous(inputs[layer.norm_weight], stream).data<float>(),
      .out = normed.data<float>(),
      .x_stride = dim,
      .num_heads = 1,
      .num_weights = 1,
      .dim = dim,
      .eps = layer.norm_eps,
  };
  dispatch_kernel(stream, cpu::kernels().rms_norm, args, static_cast<int64_t>(x.size()) / dim, dim);
  return normed;
}

const float* optional_input(const std::vector<mx::array>& inputs, size_t at, mx::Stream stream) {
  return at ? row_contiguous(inputs[at], stream).data<float>() : nullptr;
}

}  // namespace octavo
