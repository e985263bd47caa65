// One dispatch: buffers in, every threadgroup of the grid, buffers out.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "emulator.h"
#include "fiber.h"
#include "shadow_memory.h"
#include "threadgroup.h"

using namespace emulator;

namespace {

struct Failed {};

constexpr int kMaxBuffers = 31;

std::string error;
uint64_t error_offset;
void* buffer_pointers[kMaxBuffers];

std::vector<uint64_t> copy_in(const EmulatorBuffer* buffers, int count) {
  if (count > kMaxBuffers) {
    emulator_fail("%d buffers, the limit is %d", count, kMaxBuffers);
  }
  std::vector<uint64_t> offsets;
  for (int i = 0; i < count; i++) {
    const EmulatorBuffer& b = buffers[i];
    Region region{0, b.bytes, Space::device, b.writable != 0, "buffer(" + std::to_string(i) + ")"};
    offsets.push_back(memory.add(region, 256, b.undefined == 0));
    if (b.undefined == 0) {
      std::memcpy(memory.at(offsets[i]), b.host, b.bytes);
    }
    buffer_pointers[i] = memory.at(offsets[i]);
  }
  return offsets;
}

void copy_out(const EmulatorBuffer* buffers, const std::vector<uint64_t>& offsets) {
  for (size_t i = 0; i < offsets.size(); i++) {
    const EmulatorBuffer& b = buffers[i];
    uint64_t unwritten = memory.first_unwritten(offsets[i], b.bytes);
    if (b.all_written != 0 && unwritten < b.bytes) {
      emulator_fail("byte %llu of buffer(%zu) was never written", static_cast<unsigned long long>(unwritten), i);
    }
    if (b.writable != 0) {
      std::memcpy(b.host, memory.at(offsets[i]), b.bytes);
    }
  }
}

struct Grid {
  uint32_t groups[3];

  explicit Grid(const EmulatorDispatch& d) {
    for (int k = 0; k < 3; k++) {
      groups[k] = d.grid_counts_threads != 0 ? (d.grid[k] + d.group[k] - 1) / d.group[k] : d.grid[k];
    }
  }
  uint32_t size() const { return groups[0] * groups[1] * groups[2]; }
};

// Names the threads of a threadgroup; gives their number, less than a full group's at the edge of a grid of threads.
uint32_t place_threads(const EmulatorDispatch& d, const Grid& grid, uint32_t group) {
  uint32_t at[3] = {group % grid.groups[0], group / grid.groups[0] % grid.groups[1],
                    group / grid.groups[0] / grid.groups[1]};
  uint32_t size[3];
  for (int k = 0; k < 3; k++) {
    size[k] = d.grid_counts_threads != 0 ? std::min(d.group[k], d.grid[k] - at[k] * d.group[k]) : d.group[k];
  }
  uint32_t count = size[0] * size[1] * size[2];
  for (uint32_t i = 0; i < count; i++) {
    EmulatorThread& t = fibers[i].thread;
    uint32_t local[3] = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
    for (int k = 0; k < 3; k++) {
      t.in_group[k] = local[k];
      t.group_in_grid[k] = at[k];
      t.group_size[k] = size[k];
      t.in_grid[k] = at[k] * d.group[k] + local[k];
    }
    t.index = i;
    t.lane = i % kLanes;
    t.simdgroup = i / kLanes;
  }
  return count;
}

void run_grid(const EmulatorDispatch& d) {
  Grid grid(d);
  std::mt19937 random(d.seed);
  std::vector<uint32_t> order(grid.size());
  std::iota(order.begin(), order.end(), 0);
  if (d.seed != 0) {
    std::shuffle(order.begin(), order.end(), random);
  }
  for (uint32_t group : order) {
    memory.group_id = group;
    memory.epochs = {};
    memory.clear_threadgroup();
    forget_threadgroup_variables();
    run_threadgroup(place_threads(d, grid, group), d.seed != 0 ? &random : nullptr);
    if (!error.empty()) {
      throw Failed();
    }
  }
}

}  // namespace

extern "C" {

const char* emulator_error() { return error.c_str(); }
uint64_t emulator_error_offset() { return error_offset; }
uint64_t emulator_accesses() { return memory.accesses; }

// In a fiber the error is kept and the fiber never runs again; outside of one it ends the dispatch.
void emulator_fail(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  error = text;
  if (current == nullptr) {
    error_offset = 0;
    throw Failed();
  }
  const EmulatorThread& t = current->thread;
  std::snprintf(text, sizeof text, " [thread %u of threadgroup (%u, %u, %u)]", t.index, t.group_in_grid[0],
                t.group_in_grid[1], t.group_in_grid[2]);
  error += text;
  leave();
  std::abort();
}

void emulator_note_address(const void* instruction) { error_offset = library_offset(instruction); }

int emulator_dispatch(const EmulatorDispatch* dispatch, const EmulatorBuffer* buffers, int count,
                      void (*kernel)(void**)) {
  error.clear();
  error_offset = 0;
  current = nullptr;
  allocate_stacks();
  memory.clear();
  memory.accesses = 0;
  memory.group_threads = dispatch->group[0] * dispatch->group[1] * dispatch->group[2];
  try {
    if (memory.group_threads == 0 || memory.group_threads > kMaxThreads) {
      emulator_fail("%u threads in a threadgroup, 1 to 1024 are allowed", memory.group_threads);
    }
    std::vector<uint64_t> offsets = copy_in(buffers, count);
    begin_dispatch(kernel, buffer_pointers);
    run_grid(*dispatch);
    copy_out(buffers, offsets);
  } catch (const Failed&) {
    return 1;
  }
  return 0;
}
}
