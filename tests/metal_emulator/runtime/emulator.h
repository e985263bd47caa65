// Runs Metal kernels on the CPU: every GPU thread is a fiber, every access of a kernel passes a shadow memory.
//
// The kernels are compiled as C++ against host/metal_stdlib with -fsanitize=thread, but the sanitizer's run time is
// not linked: access_hooks.cpp defines its entry points. This header is what the launchers, the Metal library of
// host/ and the Python side see.
#pragma once

#include <cstdint>

extern "C" {

struct EmulatorBuffer {
  void* host;  // copied in before and out after the dispatch
  uint64_t bytes;
  uint32_t writable;
  uint32_t undefined;    // holds nothing at the start: reading a byte before writing it is an error
  uint32_t all_written;  // every byte must be written
};

struct EmulatorDispatch {
  uint32_t grid[3];
  uint32_t group[3];
  uint32_t grid_counts_threads;  // else threadgroups
  uint32_t seed;                 // 0: threads and threadgroups in order; else shuffled
};

// What the [[...]] attributes say to a thread.
struct EmulatorThread {
  uint32_t in_grid[3];
  uint32_t in_group[3];
  uint32_t group_in_grid[3];
  uint32_t group_size[3];
  uint32_t index;
  uint32_t lane;
  uint32_t simdgroup;
};

// Runs one kernel; returns 0, or 1 with a message in emulator_error().
int emulator_dispatch(const EmulatorDispatch* dispatch, const EmulatorBuffer* buffers, int count,
                      void (*kernel)(void** buffers));
const char* emulator_error();
uint64_t emulator_error_offset();  // of the offending instruction in this library; 0: unknown
uint64_t emulator_accesses();      // that were checked in the last dispatch

const EmulatorThread* emulator_thread();
[[noreturn]] void emulator_fail(const char* format, ...);

// A threadgroup variable: one place for all threads of the threadgroup.
void* emulator_threadgroup_variable(uint64_t bytes, uint64_t align, int line, const char* name);
void emulator_barrier(bool whole_group, uint32_t memory, int line);

// Waits until all 32 lanes have come with their payload of at most 64 bytes; gives the payloads, 64 bytes apart.
const unsigned char* emulator_collective(const char* name, int line, const void* payload, int bytes);
}
