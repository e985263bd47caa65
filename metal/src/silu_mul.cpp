#include "silu_mul.h"

#include "checks.h"
#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("silu_mul");

}  // namespace

mx::array silu_mul(const mx::array& gate_up) {
  checks.rank("gate_up", gate_up, 2, "[T, 2 I]");
  checks.dtype("gate_up", gate_up, mx::float32);
  checks.expect(gate_up.shape(1) % 2 == 0, gate_up, "gate_up with an even last axis");
  return mx::array({gate_up.shape(0), gate_up.shape(1) / 2}, mx::float32,
                   std::make_shared<SiluMul>(mx::default_stream(mx::Device::cpu)), {gate_up});
}

void SiluMul::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  TokenRows gate_up = token_rows(inputs[0], stream());
  allocate(out);
  cpu::SiluMul args{
      .gate_up = gate_up.array.data<float>(),
      .out = out.data<float>(),
      .stride = gate_up.stride,
      .dim = out.shape(1),
  };
  dispatch_kernel(stream(), cpu::kernels().silu_mul, args, out.shape(0), int64_t{8} * args.dim);
}

void SiluMul::eval_gpu(const std::vector<mx::array>&, mx::array&) {
  refuse_gpu("silu_mul");
}

}  // namespace octavo
