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

// Is each x[t] row-contiguous?
bool rows_are_contiguous(const mx::array& x);

// Numbers from x[t] to x[t + 1], for rows that are contiguous.
int64_t row_stride(const mx::array& x);

// A slice of a wider matrix is taken as it is. Other strides are copied, on the stream's thread.
TokenRows token_rows(const mx::array& x, mx::Stream stream);

}  // namespace octavo
