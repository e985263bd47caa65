#pragma once

#include <optional>
#include <vector>

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

struct HeadCounts {
  int num_heads;
  int num_kv_heads;
};

// Splits x [T, (H_q + 2 H_kv) D] float32 into q [T, H_q, D], k and v [T, H_kv, D]. The heads of q and k are normed
// where norm_weight [H_q + H_kv, D] is given, then each of their pairs (x[i], x[i + D / 2]) is turned by the angle
// whose cosine and sine stand at cos[t, i] and sin[t, i], both [T, D / 2] (arXiv 2104.09864). v is a view. CPU only.
std::vector<mx::array> rotary_heads(const mx::array& x, const mx::array& cos, const mx::array& sin, HeadCounts heads,
                                    const std::optional<mx::array>& norm_weight, float norm_eps);

class RotaryHeads : public mx::Primitive {
 public:
  RotaryHeads(mx::Stream stream, float norm_eps) : Primitive(stream), norm_eps_(norm_eps) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;
  void eval_gpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

  const char* name() const override { return "RotaryHeads"; }

 private:
  float norm_eps_;
};

}  // namespace octavo
