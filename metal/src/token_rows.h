// The rows of an input, read in place where they lie apart.
#pragma once

#include "mlx/mlx.h"

namespace octavo {

namespace mx = mlx::core;

// x [T, ...] whose rows x[t] are row-contiguous and stride numbers apart.
struct TokenRows {
  mx::array array;  // x itself or a copy: keep it in the encoder until the kernel ran
  int64_t stride;
};

// A slice of a wider matrix is taken as it is. Other strides are copied, on the stream's thread.
TokenRows token_rows(const mx::array& x, mx::Stream stream);

}  // namespace octavo
