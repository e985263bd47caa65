// How fast this machine reads, writes, multiplies and adds with the threads and the instruction level of the
// kernels. Each call gives the seconds of the fastest of `repeats` runs over blocks that the threads share out.
// All throw std::invalid_argument for a count below 1 and for blocks that are not whole KiB.
#pragma once

#include <cstdint>

namespace octavo {

// Reads num_blocks blocks of block_bytes each, every block `passes` times in a row.
double probe_read(int64_t block_bytes, int64_t num_blocks, int passes, int repeats);

// a + scale * b into a third array, each num_blocks * block_bytes long: three times that many bytes move.
double probe_triad(int64_t block_bytes, int64_t num_blocks, int repeats);

// num_blocks blocks of `rounds` rounds of kProbeFlops floating point operations, all in registers.
double probe_fma(int64_t num_blocks, int64_t rounds, int repeats);

}  // namespace octavo
