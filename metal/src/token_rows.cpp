#include "token_rows.h"

#include <cstring>

#include "evaluate.h"

namespace octavo {

namespace {

bool rows_are_contiguous(const mx::array& x) {
  int64_t expected = 1;
  for (int axis = static_cast<int>(x.ndim()) - 1; axis > 0; axis--) {
    if (x.shape(axis) != 1 && x.strides(axis) != expected) {
      return false;
    }
    expected *= x.shape(axis);
  }
  return true;
}

// One element at a time: a step's arrays and packed weights are row-contiguous or have contiguous rows.
void copy_strided(const char* from, char* to, const mx::Shape& shape, const mx::Strides& strides, size_t itemsize) {
  size_t count = 1;
  for (int size : shape) {
    count *= size;
  }
  for (size_t i = 0; i < count; i++) {
    size_t rest = i;
    int64_t offset = 0;
    for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; axis--) {
      offset += static_cast<int64_t>(rest % shape[axis]) * strides[axis];
      rest /= shape[axis];
    }
    std::memcpy(to + i * itemsize, from + offset * static_cast<int64_t>(itemsize), itemsize);
  }
}

}  // namespace

mx::array row_contiguous(const mx::array& x, mx::Stream stream) {
  if (x.flags().row_contiguous) {
    return x;
  }
  mx::array copy(x.shape(), x.dtype(), nullptr, {});
  allocate(copy);
  auto& encoder = mx::cpu::get_command_encoder(stream);
  encoder.add_temporary(copy);
  encoder.dispatch([from = x.data<char>(), to = copy.data<char>(), shape = x.shape(), strides = x.strides(),
                    itemsize = x.itemsize()] { copy_strided(from, to, shape, strides, itemsize); });
  return copy;
}

TokenRows token_rows(const mx::array& x, mx::Stream stream) {
  if (!x.flags().row_contiguous && rows_are_contiguous(x)) {
    return {x, x.strides(0)};
  }
  return {row_contiguous(x, stream), x.shape(0) > 0 ? static_cast<int64_t>(x.size()) / x.shape(0) : 0};
}

}  // namespace octavo
