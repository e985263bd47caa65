#include "rotary_heads.h"

#include "checks.h"
#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("rotary_heads");

void check_heads(const mx::array& x, HeadCounts heads) {
  checks.rank("x", x, 2, "[T, (H_q + 2 H_kv) D]");
  checks.dtype("x", x, mx::float32);
  checks.expect(heads.num_heads > 0, heads.num_heads, "at least one query head");
  checks.expect(heads.num_kv_heads > 0, heads.num_kv_heads, "at least one KV head");
  int parts = heads.num_heads + 2 * heads.num_kv_heads;
  checks.expect(x.shape(1) % (2 * parts) == 0, x, "x with ", parts, " heads of an even size on axis 1");
}

void check_angles(const char* name, const mx::array& angles, const mx::array& x, int head_dim) {
  checks.rank(name, angles, 2, "[T, D / 2]");
  checks.dtype(name, angles, mx::float32);
  checks.size(name, angles, 0, x.shape(0), "T");
  checks.size(name, angles, 1, head_dim / 2, "D / 2");
}

void check_norm(const mx::array& norm_weight, int num_normed, int head_dim) {
  checks.rank("norm_weight", norm_weight, 2, "[H_q + H_kv, D]");
  checks.dtype("norm_weight", norm_weight, mx::float32);
  checks.size("norm_weight", norm_weight, 0, num_normed, "H_q + H_kv");
  checks.size("norm_weight", norm_weight, 1, head_dim, "D");
}

// The last heads of x [T, N], whose rows lie `stride` numbers apart, as they lie.
void share_values(const TokenRows& x, int64_t first, mx::array& v) {
  mx::Strides strides{x.stride, v.shape(2), 1};
  mx::array::Flags flags{.contiguous = false, .row_contiguous = false, .col_contiguous = false};
  v.copy_shared_buffer(x.array, std::move(strides), flags, x.array.data_size() - first, first);
}

}  // namespace

std::vector<mx::array> rotary_heads(const mx::array& x, const mx::array& cos, const mx::array& sin, HeadCounts heads,
                                    const std::optional<mx::array>& norm_weight, float norm_eps) {
  check_heads(x, heads);
  int num_normed = heads.num_heads + heads.num_kv_heads;
  int head_dim = x.shape(1) / (num_normed + heads.num_kv_heads);
  check_angles("cos", cos, x, head_dim);
  check_angles("sin", sin, x, head_dim);
  std::vector<mx::array> inputs{x, cos, sin};
  if (norm_weight) {
    check_norm(*norm_weight, num_normed, head_dim);
    inputs.push_back(*norm_weight);
  }
  mx::Shape q{x.shape(0), heads.num_heads, head_dim};
  mx::Shape kv{x.shape(0), heads.num_kv_heads, head_dim};
  auto stream = mx::default_stream(mx::Device::cpu);
  return mx::array::make_arrays({q, kv, kv}, {mx::float32, mx::float32, mx::float32},
                                std::make_shared<RotaryHeads>(stream, norm_eps), std::move(inputs));
}

void RotaryHeads::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  TokenRows x = token_rows(inputs[0], stream());
  mx::array& q = outputs[0];
  mx::array& k = outputs[1];
  allocate(q);
  allocate(k);
  cpu::RotaryHeads args{
      .x = x.array.data<float>(),
      .cos = row_contiguous(inputs[1], stream()).data<float>(),
      .sin = row_contiguous(inputs[2], stream()).data<float>(),
      .norm_weight = inputs.size() > 3 ? row_contiguous(inputs[3], stream()).data<float>() : nullptr,
      .q = q.data<float>(),
      .k = k.data<float>(),
      .x_stride = x.stride,
      .num_heads = q.shape(1),
      .num_kv_heads = k.shape(1),
      .head_dim = q.shape(2),
      .norm_eps = norm_eps_,
  };
  int64_t rotated = q.shape(1) + k.shape(1);
  share_values(x, rotated * args.head_dim, outputs[2]);
  dispatch_kernel(stream(), cpu::kernels().rotary_heads, args, q.shape(0), rotated * args.head_dim);
}

void RotaryHeads::eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) {
  refuse_gpu("rotary_heads");
}

}  // namespace octavo
