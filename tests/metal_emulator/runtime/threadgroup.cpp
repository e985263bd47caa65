#include "threadgroup.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "fiber.h"
#include "shadow_memory.h"

namespace emulator {

namespace {

constexpr uint32_t kDeviceMemory = 1;  // mem_flags
constexpr uint32_t kThreadgroupMemory = 2;
constexpr uint64_t kThreadgroupLimit = 32 << 10;
constexpr int kPayload = 64;

struct Variable {
  int line;
  std::string name;
  uint64_t offset;
};

void (*body)(void**);
void** body_buffers;
uint32_t num_fibers;
unsigned char published[kMaxSimdGroups][kLanes * kPayload];
std::vector<Variable> variables;

void enter() {
  body(body_buffers);
  current->state = State::done;
  leave();
  std::abort();
}

void advance(uint32_t (&epochs)[kSpaces], uint32_t memory_flags) {
  epochs[static_cast<int>(Space::device)] += (memory_flags & kDeviceMemory) != 0;
  epochs[static_cast<int>(Space::threadgroup)] += (memory_flags & kThreadgroupMemory) != 0;
}

struct Waiting {
  uint32_t waiting = 0;
  uint32_t done = 0;
  uint32_t others = 0;
  uint32_t memory = ~0u;  // flags that all who wait have in common
  const Fiber* first = nullptr;
  bool same_place = true;
};

template <typename Waits>
Waiting count(uint32_t begin, uint32_t end, Waits waits) {
  Waiting found;
  for (const Fiber* f = fibers + begin; f < fibers + end; f++) {
    if (f->state == State::done) {
      found.done++;
    } else if (!waits(*f)) {
      found.others++;
    } else {
      found.waiting++;
      found.memory &= f->memory;
      found.first = found.first == nullptr ? f : found.first;
      found.same_place &= f->line == found.first->line && std::strcmp(f->waits_for, found.first->waits_for) == 0;
    }
  }
  return found;
}

void wake(uint32_t begin, uint32_t end) {
  for (Fiber* f = fibers + begin; f < fibers + end; f++) {
    f->state = f->state == State::done ? State::done : State::running;
  }
}

bool release_group() {
  Waiting found = count(0, num_fibers, [](const Fiber& f) { return f.state == State::at_group_barrier; });
  if (found.waiting == 0 || found.others > 0) {
    return false;
  }
  if (found.done > 0) {
    emulator_fail("barrier divergence: %u threads wait at threadgroup_barrier (line %d), %u have returned",
                  found.waiting, found.first->line, found.done);
  }
  if (!found.same_place) {
    emulator_fail("barrier divergence: threads wait at different threadgroup_barriers (line %d and another)",
                  found.first->line);
  }
  advance(memory.epochs.group, found.memory);
  wake(0, num_fibers);
  return true;
}

bool release_simd_group(uint32_t simd) {
  uint32_t begin = simd * kLanes;
  uint32_t end = std::min(begin + kLanes, num_fibers);
  Waiting found = count(begin, end, [](const Fiber& f) {
    return f.state == State::at_simd_barrier || f.state == State::in_collective;
  });
  if (found.waiting == 0 || found.others > 0) {
    return false;
  }
  if (!found.same_place) {
    emulator_fail("SIMD divergence: lanes of SIMD-group %u wait at %s (line %d) and elsewhere", simd,
                  found.first->waits_for, found.first->line);
  }
  // Metal defines some of this for lanes that returned or were never there; the kernels do not rely on it.
  if (found.waiting < kLanes) {
    emulator_fail("SIMD divergence: %s (line %d) with %u of 32 lanes of SIMD-group %u", found.first->waits_for,
                  found.first->line, found.waiting, simd);
  }
  for (uint32_t i = begin; i < end; i++) {
    std::memcpy(published[simd] + (i - begin) * kPayload, fibers[i].payload, kPayload);
  }
  if (found.first->state == State::at_simd_barrier) {
    advance(memory.epochs.simd[simd], found.memory);
  }
  wake(begin, end);
  return true;
}

bool release() {
  bool any = release_group();
  for (uint32_t simd = 0; simd * kLanes < num_fibers; simd++) {
    any |= release_simd_group(simd);
  }
  return any;
}

[[noreturn]] void fail_stuck() {
  Waiting barrier = count(0, num_fibers, [](const Fiber& f) { return f.state == State::at_group_barrier; });
  Waiting other = count(0, num_fibers, [](const Fiber& f) { return f.state != State::at_group_barrier; });
  emulator_fail("barrier divergence: %u threads at threadgroup_barrier (line %d), %u at %s (line %d), %u returned",
                barrier.waiting, barrier.first->line, other.waiting, other.first->waits_for, other.first->line,
                barrier.done);
}

bool all_done() {
  return std::all_of(fibers, fibers + num_fibers, [](const Fiber& f) { return f.state == State::done; });
}

void wait(State state, const char* name, int line, uint32_t memory_flags) {
  current->state = state;
  current->waits_for = name;
  current->line = line;
  current->memory = memory_flags;
  leave();
}

}  // namespace

void begin_dispatch(void (*kernel)(void**), void** buffers) {
  body = kernel;
  body_buffers = buffers;
}

void forget_threadgroup_variables() { variables.clear(); }

void run_threadgroup(uint32_t num_threads, std::mt19937* shuffle) {
  num_fibers = num_threads;
  std::vector<uint32_t> order(num_threads);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i : order) {
    fibers[i].state = State::running;
    prepare(&fibers[i], enter);
  }
  while (!all_done()) {
    if (shuffle != nullptr) {
      std::shuffle(order.begin(), order.end(), *shuffle);
    }
    bool ran = false;
    for (uint32_t i : order) {
      if (fibers[i].state == State::running) {
        resume(&fibers[i]);
        ran = true;
        if (emulator_error()[0] != 0) {
          return;
        }
      }
    }
    if (!release() && !ran) {
      fail_stuck();
    }
  }
}

}  // namespace emulator

using namespace emulator;

extern "C" {

const EmulatorThread* emulator_thread() { return &current->thread; }

void* emulator_threadgroup_variable(uint64_t bytes, uint64_t align, int line, const char* name) {
  for (const Variable& v : variables) {
    if (v.line == line && v.name == name) {
      return memory.at(v.offset);
    }
  }
  Region region{0, bytes, Space::threadgroup, true, std::string("threadgroup ") + name};
  uint64_t offset = memory.add(region, std::max<uint64_t>(align, 16), false);
  variables.push_back({line, name, offset});
  if (memory.threadgroup_bytes() > kThreadgroupLimit) {
    emulator_fail("threadgroup memory is %llu bytes, the limit is %llu",
                  static_cast<unsigned long long>(memory.threadgroup_bytes()),
                  static_cast<unsigned long long>(kThreadgroupLimit));
  }
  return memory.at(offset);
}

void emulator_barrier(bool whole_group, uint32_t memory_flags, int line) {
  if (whole_group) {
    wait(State::at_group_barrier, "threadgroup_barrier", line, memory_flags);
  } else {
    wait(State::at_simd_barrier, "simdgroup_barrier", line, memory_flags);
  }
}

const unsigned char* emulator_collective(const char* name, int line, const void* payload, int bytes) {
  std::memcpy(current->payload, payload, bytes);
  wait(State::in_collective, name, line, 0);
  return published[current->thread.simdgroup];
}
}
