#include "shadow_memory.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fiber.h"

namespace emulator {

ShadowMemory memory;

namespace {

constexpr uint64_t kArenaBytes = 64ull << 20;
constexpr uint64_t kRedZone = 4096;  // between regions: an overrun lands in no region

enum Status : uint8_t { kOutside, kUndefined, kDefined };

// The last write and the last read of a byte. Thread numbers count from 1 over all threadgroups.
struct Access {
  uint32_t thread;
  uint32_t group_epoch;
  uint32_t simd_epoch;
};

// Readers since the last write that no barrier has ordered.
enum Readers : uint8_t { kOneReader, kOneSimdGroup, kOneGroup, kManyGroups };

struct Cell {
  Access write;
  Access read;
  Readers readers;
};

char* arena;
uint8_t* status;
Cell* cells;
uint64_t top;
std::vector<Region> regions;

template <typename T>
T* reserve(uint64_t count) {
  return static_cast<T*>(mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

const Region& nearest(uint64_t offset) {
  auto distance = [offset](const Region& r) {
    uint64_t end = r.offset + r.bytes;
    return offset < r.offset ? r.offset - offset : offset >= end ? offset - end + 1 : 0;
  };
  return *std::min_element(regions.begin(), regions.end(),
                           [&](const Region& a, const Region& b) { return distance(a) < distance(b); });
}

const char* verb(bool write) { return write ? "write" : "read"; }

Access access_now(Space space) {
  int s = static_cast<int>(space);
  const EmulatorThread& thread = current->thread;
  return {memory.group_id * memory.group_threads + thread.index + 1, memory.epochs.group[s],
          memory.epochs.simd[thread.simdgroup][s]};
}

uint32_t group_of(const Access& a) { return (a.thread - 1) / memory.group_threads; }
uint32_t index_of(const Access& a) { return (a.thread - 1) % memory.group_threads; }
bool same_simd_group(const Access& a) { return index_of(a) / kLanes == current->thread.simdgroup; }

// Does a barrier lie between an earlier access and this one?
bool ordered(const Access& earlier, const Access& now, bool simd_counts) {
  if (group_of(earlier) != memory.group_id) {
    return false;
  }
  return earlier.group_epoch < now.group_epoch ||
         (simd_counts && same_simd_group(earlier) && earlier.simd_epoch < now.simd_epoch);
}

void fail_race(uint64_t byte, const Region& region, bool write, const Access& earlier, bool earlier_write) {
  emulator_fail(
      "data race on byte %llu of %s: %s by thread %u of threadgroup %u after a %s by thread %u of threadgroup %u, "
      "with no barrier between",
      static_cast<unsigned long long>(byte - region.offset), region.name.c_str(), verb(write), current->thread.index,
      memory.group_id, verb(earlier_write), index_of(earlier), group_of(earlier));
}

void note_read(Cell& cell, const Access& now, bool has_reader, bool reader_ordered) {
  if (has_reader && !reader_ordered) {
    Readers next = group_of(cell.read) != memory.group_id ? kManyGroups
                   : same_simd_group(cell.read)           ? kOneSimdGroup
                                                          : kOneGroup;
    cell.readers = std::max(cell.readers, next);
  } else if (has_reader || cell.read.thread == 0) {
    cell.readers = kOneReader;
  }
  cell.read = now;
}

void check_race(uint64_t byte, const Region& region, bool write) {
  Cell& cell = cells[byte];
  Access now = access_now(region.space);
  if (cell.write.thread != 0 && cell.write.thread != now.thread && !ordered(cell.write, now, true)) {
    fail_race(byte, region, write, cell.write, true);
  }
  bool has_reader = cell.read.thread != 0 && (cell.readers != kOneReader || cell.read.thread != now.thread);
  bool reader_ordered =
      !has_reader || (cell.readers != kManyGroups && ordered(cell.read, now, cell.readers != kOneGroup));
  if (!write) {
    note_read(cell, now, has_reader, reader_ordered);
    return;
  }
  if (!reader_ordered) {
    fail_race(byte, region, true, cell.read, false);
  }
  cell.write = now;
  cell.read = {};
  cell.readers = kOneReader;
}

void check_bounds(uint64_t offset, uint64_t bytes, bool write) {
  for (uint64_t i = offset; i < offset + bytes; i++) {
    if (status[i] == kOutside) {
      const Region& region = nearest(i);
      emulator_fail("out-of-bounds %s of %llu bytes at byte %lld of %s (%llu bytes)", verb(write),
                    static_cast<unsigned long long>(bytes), static_cast<long long>(i - region.offset),
                    region.name.c_str(), static_cast<unsigned long long>(region.bytes));
    }
    if (!write && status[i] == kUndefined) {
      const Region& region = nearest(i);
      emulator_fail("read of uninitialised memory: byte %lld of %s", static_cast<long long>(i - region.offset),
                    region.name.c_str());
    }
  }
}

// Not in the arena: a thread's own stack, a constant, or a mistake.
void check_outside(const void* p, uint64_t bytes, bool write) {
  const char* stack = stack_of(current);
  if (p >= stack && p < stack + kStackBytes) {
    return;
  }
  if (in_any_stack(p)) {
    emulator_fail("%s of another thread's own memory", verb(write));
  }
  if (!write && in_library(p)) {
    return;
  }
  emulator_fail("out-of-bounds %s of %llu bytes, far out of every buffer", verb(write),
                static_cast<unsigned long long>(bytes));
}

void drop(const Region& region) { std::memset(status + region.offset, kOutside, region.bytes); }

}  // namespace

void ShadowMemory::clear() {
  if (arena == nullptr) {
    arena = reserve<char>(kArenaBytes);
    status = reserve<uint8_t>(kArenaBytes);
    cells = reserve<Cell>(kArenaBytes);
  }
  std::for_each(regions.begin(), regions.end(), drop);
  regions.clear();
  top = 0;
}

void ShadowMemory::clear_threadgroup() {
  while (!regions.empty() && regions.back().space == Space::threadgroup) {
    drop(regions.back());
    top = regions.back().offset - kRedZone;
    regions.pop_back();
  }
}

uint64_t ShadowMemory::add(const Region& region, uint64_t align, bool defined) {
  uint64_t offset = (top + kRedZone + align - 1) / align * align;
  top = offset + region.bytes;
  if (top + kRedZone > kArenaBytes) {
    emulator_fail("the emulator's %llu bytes of memory are full", static_cast<unsigned long long>(kArenaBytes));
  }
  std::memset(arena + offset, 0xff, region.bytes);
  std::memset(status + offset, defined ? kDefined : kUndefined, region.bytes);
  std::memset(static_cast<void*>(cells + offset), 0, region.bytes * sizeof(Cell));
  regions.push_back(region);
  regions.back().offset = offset;
  return offset;
}

char* ShadowMemory::at(uint64_t offset) const { return arena + offset; }

uint64_t ShadowMemory::first_unwritten(uint64_t offset, uint64_t bytes) const {
  const uint8_t* begin = status + offset;
  return std::find(begin, begin + bytes, kUndefined) - begin;
}

uint64_t ShadowMemory::threadgroup_bytes() const {
  uint64_t total = 0;
  for (const Region& region : regions) {
    total += region.space == Space::threadgroup ? (region.bytes + 15) / 16 * 16 : 0;
  }
  return total;
}

void ShadowMemory::check(const void* p, uint64_t bytes, bool write) {
  accesses++;
  if (p < arena || p >= arena + kArenaBytes) {
    check_outside(p, bytes, write);
    return;
  }
  uint64_t offset = static_cast<const char*>(p) - arena;
  check_bounds(offset, bytes, write);
  const Region& region = nearest(offset);
  if (!region.writable) {
    if (write) {
      emulator_fail("write to the read-only %s", region.name.c_str());
    }
    return;
  }
  for (uint64_t i = offset; i < offset + bytes; i++) {
    check_race(i, region, write);
    if (write) {
      status[i] = kDefined;
    }
  }
}

namespace {

struct Bounds {
  uint64_t low = 0;
  uint64_t high = 0;
};

int find_library(dl_phdr_info* info, size_t, void* result) {
  Bounds bounds{info->dlpi_addr, info->dlpi_addr};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD) {
      bounds.high = std::max<uint64_t>(bounds.high, info->dlpi_addr + header.p_vaddr + header.p_memsz);
    }
  }
  auto here = reinterpret_cast<uint64_t>(&memory);
  if (here < bounds.low || here >= bounds.high) {
    return 0;
  }
  *static_cast<Bounds*>(result) = bounds;
  return 1;
}

const Bounds& library() {
  static const Bounds found = [] {
    Bounds bounds;
    dl_iterate_phdr(find_library, &bounds);
    return bounds;
  }();
  return found;
}

}  // namespace

bool in_library(const void* p) {
  auto at = reinterpret_cast<uint64_t>(p);
  return at >= library().low && at < library().high;
}

uint64_t library_offset(const void* p) { return reinterpret_cast<uint64_t>(p) - library().low; }

}  // namespace emulator
