// Sizes of the schedules that the launch logic and the kernels must agree on.
#ifndef OCTAVO_SCHEDULE_H
#define OCTAVO_SCHEDULE_H

#define OCTAVO_SIMD_WIDTH 32

// decode: SIMD-groups of a threadgroup, each with its own part of the context
#define OCTAVO_DECODE_SIMDGROUPS 8
// prefill: SIMD-groups of a threadgroup, each with 8 query rows
#define OCTAVO_PREFILL_SIMDGROUPS 4
#define OCTAVO_PREFILL_ROWS (8 * OCTAVO_PREFILL_SIMDGROUPS)
// a partial result: D values, the top score, the sum of weights
#define OCTAVO_PARTIAL_EXTRA 2

#endif
