// Barriers, what the lanes of a SIMD-group do together, and 8x8 matrices spread over its lanes.
#pragma once

#include "metal_math.h"

#define EMULATOR_LINE int line = __builtin_LINE()

namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };

EMULATOR_INLINE void threadgroup_barrier(mem_flags flags, EMULATOR_LINE) { emulator_barrier(true, uint(flags), line); }
EMULATOR_INLINE void simdgroup_barrier(mem_flags flags, EMULATOR_LINE) { emulator_barrier(false, uint(flags), line); }

// What every lane brought to a collective.
template <class T>
struct EmulatorLanes {
  const unsigned char* payloads;

  EMULATOR_INLINE EmulatorLanes(const char* name, int line, T mine)
      : payloads(emulator_collective(name, line, &mine, sizeof mine)) {}
  __attribute__((no_sanitize("thread"), noinline)) T operator[](uint lane) const {
    T value;
    __builtin_memcpy(&value, payloads + 64 * lane, sizeof value);
    return value;
  }
};

EMULATOR_INLINE uint emulator_lane() { return emulator_thread()->lane; }

// In the order of a butterfly: pairs first.
template <class T>
EMULATOR_INLINE T simd_sum(T x, EMULATOR_LINE) {
  EmulatorLanes<T> lanes("simd_sum", line, x);
  T sums[32];
  for (uint i = 0; i < 32; i++) sums[i] = lanes[i];
  for (uint step = 16; step > 0; step /= 2) {
    for (uint i = 0; i < step; i++) sums[i] = sums[i] + sums[i + step];
  }
  return sums[0];
}

template <class T>
EMULATOR_INLINE T simd_shuffle(T x, ushort lane, EMULATOR_LINE) {
  static_assert(sizeof(T) <= 4, "Metal shuffles 32 bits at most");
  EmulatorLanes<T> lanes("simd_shuffle", line, x);
  if (lane >= 32) emulator_fail("simd_shuffle reads lane %u", lane);
  return lanes[lane];
}

template <class T>
EMULATOR_INLINE T simd_shuffle_xor(T x, ushort mask, EMULATOR_LINE) {
  return simd_shuffle(x, ushort(emulator_lane() ^ mask), line);
}

// A lane holds two neighbours of one row, as on Apple's GPUs.
template <class T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8);
  vec<T, 2> elements;

  EMULATOR_INLINE vec<T, 2>& thread_elements() { return elements; }
  static EMULATOR_INLINE uint row(uint lane) { return ((lane >> 4) << 2) + ((lane >> 1) & 3); }
  static EMULATOR_INLINE uint column(uint lane) { return ((lane >> 3) & 1) * 4 + (lane & 1) * 2; }
};

template <class T>
struct EmulatorOperands {
  vec<T, 2> left, right;
};

template <class T>
EMULATOR_INLINE void simdgroup_multiply_accumulate(simdgroup_matrix<T, 8, 8>& d, simdgroup_matrix<T, 8, 8> a,
                                                   simdgroup_matrix<T, 8, 8> b, simdgroup_matrix<T, 8, 8> c,
                                                   EMULATOR_LINE) {
  using Matrix = simdgroup_matrix<T, 8, 8>;
  EmulatorLanes<EmulatorOperands<T>> lanes("simdgroup_multiply_accumulate", line, {a.elements, b.elements});
  uint row = Matrix::row(emulator_lane());
  uint column = Matrix::column(emulator_lane());
  T left[8];
  T right[8][2];
  for (uint lane = 0; lane < 32; lane++) {
    EmulatorOperands<T> operands = lanes[lane];
    for (uint e = 0; e < 2; e++) {
      if (Matrix::row(lane) == row) left[Matrix::column(lane) + e] = operands.left.v[e];
      if (Matrix::column(lane) == column) right[Matrix::row(lane)][e] = operands.right.v[e];
    }
  }
  for (uint e = 0; e < 2; e++) {
    T sum = c.elements.v[e];
    for (uint k = 0; k < 8; k++) sum += left[k] * right[k][e];
    d.elements.v[e] = sum;
  }
}

}  // namespace metal
