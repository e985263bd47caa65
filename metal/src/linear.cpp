#include "linear.h"

#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "packed_weight.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("linear");

}  // namespace

mx::array linear(const mx::array& x, const mx::array& panels, const LinearExtras& extras, int out_features) {
  check_panels(checks, panels, out_features);
  std::vector<mx::array> inputs{x, panels};
  LinearLayer layer = append_extras(checks, extras, panels.shape(1), out_features, inputs);
  auto stream = mx::default_stream(mx::Device::cpu);
  mx::Shape shape = x.shape();
  shape.back() = out_features;
  return mx::array(std::move(shape), mx::float32, std::make_shared<Linear>(stream, layer), std::move(inputs));
}

void Linear::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  mx::array x = layer_input(inputs, layer_, stream());
  mx::array panels = row_contiguous(inputs[1], stream());
  allocate(out);
  cpu::Linear args{
      .x = x.data<float>(),
      .panels = panels.data<void>(),
      .bias = optional_input(inputs, layer_.bias, stream()),
      .residual = optional_input(inputs, layer_.residual, stream()),
      .out = out.data<float>(),
      .weight_type = element_of(panels),
      .m = static_cast<int64_t>(x.size()) / x.shape(-1),
      .n = out.shape(-1),
      .k = x.shape(-1),
  };
  dispatch_kernel(stream(), cpu::kernels().linear, args, cpu::linear_units(args.m, args.n),
                  cpu::linear_work_per_unit(args.m, args.k));
}

void Linear::eval_gpu(const std::vector<mx::array>&, mx::array&) {
  refuse_gpu("linear");
}

}  // namespace octavo
