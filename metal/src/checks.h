// What an op demands of its arguments. A refusal is std::invalid_argument (ValueError in Python) that reads
// "[op] expected ..., got ...".
#pragma once

#include <string>

#include "mlx/mlx.h"

namespace octavo {

namespace mx = mlx::core;

// "float32 [3, 4]"
std::string text(const mx::array& a);
std::string text(const mx::Shape& shape);
std::string text(mx::Dtype dtype);
inline std::string text(const char* words) { return words; }
inline std::string text(int64_t number) { return std::to_string(number); }
inline std::string text(int number) { return std::to_string(number); }
inline std::string text(float number) { return std::to_string(number); }

class Checks {
 public:
  explicit Checks(std::string op) : op_(std::move(op)) {}

  // The parts of the message are written out only for a refusal: ops are built thousands of times a second.
  template <typename Got, typename... Expected>
  void expect(bool ok, const Got& got, const Expected&... expected) const {
    if (!ok) {
      refuse((text(expected) + ...), text(got));
    }
  }

  // layout is the shape in words, e.g. "[T, H_q, D]".
  void rank(const char* name, const mx::array& a, int ndim, const char* layout) const;
  void size(const char* name, const mx::array& a, int axis, int64_t size, const char* meaning) const;
  void not_empty(const char* name, const mx::array& a) const;
  void dtype(const char* name, const mx::array& a, mx::Dtype dtype) const;
  void floating(const char* name, const mx::array& a) const;

  // Flags are known only once an array is computed; an op repeats this check when it is evaluated.
  void row_contiguous(const char* name, const mx::array& a) const;

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const;

  std::string op_;
};

}  // namespace octavo
