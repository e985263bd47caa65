// What an op demands of its arguments. A refusal is std::invalid_argument (ValueError in Python) that reads
// "[op] expected ..., got ...".
#pragma once

#include <initializer_list>
#include <string>

#include "mlx/mlx.h"

namespace octavo {

namespace mx = mlx::core;

// "float32 [3, 4]"
std::string describe(const mx::array& a);
std::string describe(const mx::Shape& shape);

class Checks {
 public:
  explicit Checks(std::string op) : op_(std::move(op)) {}

  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const;
  void expect(bool ok, const std::string& expected, const std::string& got) const;

  // layout is the shape in words, e.g. "[T, H_q, D]".
  void rank(const char* name, const mx::array& a, int ndim, const char* layout) const;
  void size(const char* name, const mx::array& a, int axis, int64_t size, const char* meaning) const;
  void not_empty(const char* name, const mx::array& a) const;
  void dtype(const char* name, const mx::array& a, std::initializer_list<mx::Dtype> allowed) const;
  void floating(const char* name, const mx::array& a) const;

  // Flags are known only once an array is computed; an op repeats this check when it is evaluated.
  void row_contiguous(const char* name, const mx::array& a) const;

 private:
  std::string op_;
};

}  // namespace octavo
