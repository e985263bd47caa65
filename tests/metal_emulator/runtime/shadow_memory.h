// The memory of the emulated GPU. Each byte knows whether it belongs to a buffer, whether it was written, and who
// touched it last; from that bounds, uninitialised reads and data races follow, whatever order the threads ran in.
//
// A race is two accesses to a byte by different threads, one of them a write, that no barrier orders: one of the
// right scope (threadgroup, or SIMD-group within one) with the right mem_flags. Threadgroups are never ordered.
#pragma once

#include <cstdint>
#include <string>

namespace emulator {

constexpr int kMaxSimdGroups = 32;

enum class Space { device, threadgroup };
constexpr int kSpaces = 2;

struct Region {
  uint64_t offset;
  uint64_t bytes;
  Space space;
  bool writable;
  std::string name;
};

// Barriers passed so far, per space: a later access is ordered after an earlier one iff an epoch moved between.
struct Epochs {
  uint32_t group[kSpaces];
  uint32_t simd[kMaxSimdGroups][kSpaces];
};

class ShadowMemory {
 public:
  Epochs epochs;
  uint32_t group_id = 0;
  uint32_t group_threads = 1;
  uint64_t accesses = 0;

  void clear();                   // drops all regions
  void clear_threadgroup();       // drops the threadgroup variables
  // Gives the offset; the bytes hold NaN (0xff) until they are written.
  uint64_t add(const Region& region, uint64_t align, bool defined);
  char* at(uint64_t offset) const;
  uint64_t first_unwritten(uint64_t offset, uint64_t bytes) const;  // == bytes: none
  uint64_t threadgroup_bytes() const;

  // Checks an access of the current fiber; fails it with a message.
  void check(const void* p, uint64_t bytes, bool write);
};

extern ShadowMemory memory;

// Bounds of this library: constants of a kernel lie in it.
bool in_library(const void* p);
uint64_t library_offset(const void* p);

}  // namespace emulator
