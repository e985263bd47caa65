#include "checks.h"

#include <sstream>
#include <stdexcept>

namespace octavo {

namespace {

std::string dtype_name(mx::Dtype dtype) {
  std::ostringstream text;
  text << dtype;
  return text.str();
}

}  // namespace

std::string describe(const mx::Shape& shape) {
  std::ostringstream text;
  text << "[";
  for (size_t i = 0; i < shape.size(); i++) {
    text << (i ? ", " : "") << shape[i];
  }
  text << "]";
  return text.str();
}

std::string describe(const mx::array& a) {
  return dtype_name(a.dtype()) + " " + describe(a.shape());
}

void Checks::refuse(const std::string& expected, const std::string& got) const {
  throw std::invalid_argument("[" + op_ + "] expected " + expected + ", got " + got);
}

void Checks::expect(bool ok, const std::string& expected, const std::string& got) const {
  if (!ok) {
    refuse(expected, got);
  }
}

void Checks::rank(const char* name, const mx::array& a, int ndim, const char* layout) const {
  expect(static_cast<int>(a.ndim()) == ndim, std::string(name) + " " + layout, describe(a));
}

void Checks::size(const char* name, const mx::array& a, int axis, int64_t size, const char* meaning) const {
  expect(a.shape(axis) == size,
         std::string(name) + " with " + meaning + " = " + std::to_string(size) + " on axis " + std::to_string(axis),
         describe(a));
}

void Checks::not_empty(const char* name, const mx::array& a) const {
  expect(a.size() > 0, std::string(name) + " with no axis of length 0", describe(a));
}

void Checks::dtype(const char* name, const mx::array& a, std::initializer_list<mx::Dtype> allowed) const {
  std::string names;
  for (const mx::Dtype& candidate : allowed) {
    if (a.dtype() == candidate) {
      return;
    }
    names += (names.empty() ? "" : " or ") + dtype_name(candidate);
  }
  refuse(std::string(name) + " of " + names, describe(a));
}

void Checks::floating(const char* name, const mx::array& a) const {
  dtype(name, a, {mx::float32, mx::float16, mx::bfloat16});
}

void Checks::row_contiguous(const char* name, const mx::array& a) const {
  bool known = a.status() != mx::array::Status::unscheduled;
  expect(!known || a.flags().row_contiguous, std::string(name) + " row-contiguous", describe(a) + " with other strides");
}

}  // namespace octavo
