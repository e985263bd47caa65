// Runs the threads of one threadgroup until all have returned; releases barriers and collectives when everyone who
// must come has come, and fails when someone never will.
#pragma once

#include <cstdint>
#include <random>

namespace emulator {

void begin_dispatch(void (*kernel)(void**), void** buffers);

// `shuffle` null: threads run in order.
void run_threadgroup(uint32_t num_threads, std::mt19937* shuffle);

void forget_threadgroup_variables();

}  // namespace emulator
