// Inputs in any layout, settled when an op is evaluated: an operation in the graph to lay them out would cost more
// than most of ours take.
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

// x itself, or a row-contiguous copy that is made on the stream's thread.
mx::array row_contiguous(const mx::array& x, mx::Stream stream);

// An input that the CPU passes through row_contiguous() and the GPU needs row-contiguous from the start.
inline mx::array laid_out(const mx::array& x, mx::Stream stream) {
  return stream.device == mx::Device::cpu ? x : mx::contiguous(x, false, stream);
}

}  // namespace octavo
