#pragma once

#include "launch/launch.h"
#include "mlx/mlx.h"

namespace octavo::gpu {

// Of x [T, H, D]. The kernels take any: MLX's own GPU copy is not open to extensions.
inline launch::Strides strides_of(const mlx::core::array& x) {
  return {static_cast<int>(x.strides(0)), static_cast<int>(x.strides(1)), static_cast<int>(x.strides(2))};
}

}  // namespace octavo::gpu
