// What linear and quantized_linear share around the product: x is normed before it, a residual added after it, each
// where it is given. One op instead of three: an op in MLX's graph costs as much as a small product.
#pragma once

#include <optional>
#include <vector>

#include "checks.h"
#include "mlx/mlx.h"

namespace octavo {

// The optional arrays of a linear layer, as they come from the caller.
struct LinearExtras {
  std::optional<mx::array> bias;         // [N]
  std::optional<mx::array> norm_weight;  // [K]
  float norm_eps;
  std::optional<mx::array> residual;  // [..., N]
};

// Where they stand among the inputs of the op. Input 0 is x, so 0 is "not given".
struct LinearLayer {
  size_t bias = 0;
  size_t norm_weight = 0;
  size_t residual = 0;
  float norm_eps = 0;
};

// Checks x [..., K] and the extras of a layer with out_features outputs, and appends the extras to `inputs`, of
// which the first is x.
LinearLayer append_extras(const Checks& checks, const LinearExtras& extras, int in_features, int out_features,
                          std::vector<mx::array>& inputs);

// x [..., K] row-contiguous, normed on the stream's thread where the layer says so.
mx::array layer_input(const std::vector<mx::array>& inputs, const LinearLayer& layer, mx::Stream stream);

// The numbers of an optional input, row-contiguous, or null.
const float* optional_input(const std::vector<mx::array>& inputs, size_t at, mx::Stream stream);

}  // namespace octavo
