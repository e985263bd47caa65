#include "rms_norm.h"

#include "checks.h"
#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("rms_norm");

void check(const mx::array& x, const mx::array& weight) {
  checks.expect(x.ndim() == 2 || x.ndim() == 3, x, "x [T, D] or [T, H, D]");
  checks.dtype("x", x, mx::float32);
  checks.dtype("weight", weight, mx::float32);
  int axes = static_cast<int>(weight.ndim());
  checks.expect(axes == 1 || axes == static_cast<int>(x.ndim()) - 1, weight,
                "weight [D] or, for x [T, H, D], [H, D]");
  for (int axis = 1; axis <= axes; axis++) {
    checks.size("weight", weight, axes - axis, x.shape(-axis), axis == 1 ? "D" : "H");
  }
}

}  // namespace

mx::array rms_norm(const mx::array& x, const mx::array& weight, float eps) {
  check(x, weight);
  auto stream = mx::default_stream(mx::Device::cpu);
  return mx::array(x.shape(), mx::float32, std::make_shared<RMSNorm>(stream, eps),
                   {x, weight});
}

void RMSNorm::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  TokenRows x = token_rows(inputs[0], stream());
  mx::array weight = row_contiguous(inputs[1], stream());
  allocate(out);
  int dim = out.shape(-1);
  cpu::RMSNorm args{
      .x = x.array.data<float>(),
      .weight = weight.data<float>(),
      .out = out.data<float>(),
      .x_stride = x.stride,
      .num_heads = out.ndim() == 3 ? out.shape(1) : 1,
      .num_weights = weight.ndim() == 2 ? weight.shape(0) : 1,
      .dim = dim,
      .eps = eps_,
  };
  dispatch_kernel(stream(), cpu::kernels().rms_norm, args, out.shape(0), int64_t{args.num_heads} * dim);
}

void RMSNorm::eval_gpu(const std::vector<mx::array>&, mx::array&) {
  refuse_gpu("rms_norm");
}

}  // namespace octavo
