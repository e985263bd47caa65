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

// An input of an op that reads token_rows on the CPU; on the GPU its rows are laid side by side.
inline mx::array rows_for(mx::Stream stream, const mx::array& x) {
  return stream.device == mx::Device::cpu ? x : mx::contiguous(x, false, stream);
}

// A slice of a wider matrix is taken as it is. Other strides are copied, on the stream's thread.
TokenRows token_rows(const mx::array& x, mx::Stream stream);

}  // namespace octavo
