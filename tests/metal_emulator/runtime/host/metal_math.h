#pragma once

#include "metal_types.h"

namespace metal {

using ::bfloat;
using ::vec;

template <class T>
EMULATOR_INLINE T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
EMULATOR_INLINE T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
EMULATOR_INLINE T clamp(T x, T low, T high) {
  return min(max(x, low), high);
}

namespace fast {
EMULATOR_INLINE float exp2(float x) { return __builtin_exp2f(x); }
}  // namespace fast

namespace precise {
EMULATOR_INLINE float tanh(float x) { return __builtin_tanhf(x); }
}  // namespace precise

}  // namespace metal
