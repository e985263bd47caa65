#include "rotary.h"

#include "checks.h"
#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("rotary");

void check_angles(const char* name, const mx::array& angles, const mx::array& x) {
  checks.rank(name, angles, 2, "[T, D / 2]");
  checks.dtype(name, angles, mx::float32);
  checks.size(name, angles, 0, x.shape(0), "T");
  checks.size(name, angles, 1, x.shape(2) / 2, "D / 2");
}

}  // namespace

mx::array rotary(const mx::array& x, const mx::array& cos, const mx::array& sin) {
  checks.rank("x", x, 3, "[T, H, D]");
  checks.dtype("x", x, mx::float32);
  checks.expect(x.shape(2) % 2 == 0, x.shape(2), "an even head size D");
  check_angles("cos", cos, x);
  check_angles("sin", sin, x);
  auto stream = mx::default_stream(mx::Device::cpu);
  return mx::array(x.shape(), mx::float32, std::make_shared<Rotary>(stream),
                   {x, cos, sin});
}

void Rotary::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  TokenRows x = token_rows(inputs[0], stream());
  out.set_data(mx::allocator::malloc(out.nbytes()));
  cpu::Rotary args{
      .x = x.array.data<float>(),
      .cos = row_contiguous(inputs[1], stream()).data<float>(),
      .sin = row_contiguous(inputs[2], stream()).data<float>(),
      .out = out.data<float>(),
      .x_stride = x.stride,
      .num_heads = out.shape(1),
      .head_dim = out.shape(2),
  };
  dispatch_kernel(stream(), cpu::kernels().rotary, args, out.shape(0), int64_t{args.num_heads} * args.head_dim);
}

void Rotary::eval_gpu(const std::vector<mx::array>&, mx::array&) {
  refuse_gpu("rotary");
}

}  // namespace octavo
