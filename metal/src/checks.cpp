#include "checks.h"

#include <sstream>
#include <stdexcept>

namespace octavo {

std::string text(mx::Dtype dtype) {
  std::ostringstream words;
  words << dtype;
  return words.str();
}

std::string text(const mx::Shape& shape) {
  std::string words = "[";
  for (size_t i = 0; i < shape.size(); i++) {
    words += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return words + "]";
}

std::string text(const mx::array& a) {
  return text(a.dtype()) + " " + text(a.shape());
}

void Checks::refuse(const std::string& expected, const std::string& got) const {
  throw std::invalid_argument("[" + op_ + "] expected " + expected + ", got " + got);
}

void Checks::rank(const char* name, const mx::array& a, int ndim, const char* layout) const {
  expect(static_cast<int>(a.ndim()) == ndim, a, name, " ", layout);
}

void Checks::size(const char* name, const mx::array& a, int axis, int64_t size, const char* meaning) const {
  expect(a.shape(axis) == size, a, name, " with ", meaning, " = ", size, " on axis ", axis);
}

void Checks::not_empty(const char* name, const mx::array& a) const {
  expect(a.size() > 0, a, name, " with no axis of length 0");
}

void Checks::dtype(const char* name, const mx::array& a, mx::Dtype dtype) const {
  expect(a.dtype() == dtype, a, name, " of ", dtype);
}

void Checks::floating(const char* name, const mx::array& a) const {
  expect(a.dtype() == mx::float32 || a.dtype() == mx::float16 || a.dtype() == mx::bfloat16, a, name,
         " of float32 or float16 or bfloat16");
}

void Checks::row_contiguous(const char* name, const mx::array& a) const {
  bool known = a.status() != mx::array::Status::unscheduled;
  expect(!known || a.flags().row_contiguous, a, name, " row-contiguous");
}

}  // namespace octavo
