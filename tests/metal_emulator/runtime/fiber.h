// A GPU thread as a coroutine with a stack of its own.
#pragma once

#include <cstdint>

#ifndef __x86_64__
#include <ucontext.h>
#endif

#include "emulator.h"

namespace emulator {

constexpr uint64_t kMaxThreads = 1024;
constexpr uint64_t kStackBytes = 64 << 10;
constexpr uint32_t kLanes = 32;

enum class State { running, at_group_barrier, at_simd_barrier, in_collective, done };

struct Fiber {
#ifdef __x86_64__
  void* stack_pointer;
#else
  ucontext_t context;
#endif
  State state;
  const char* waits_for;
  int line;         // of the barrier or the collective
  uint32_t memory;  // mem_flags of the barrier
  unsigned char payload[64];
  EmulatorThread thread;
};

extern Fiber fibers[kMaxThreads];
extern Fiber* current;  // null while no kernel code runs

void allocate_stacks();
char* stack_of(const Fiber* fiber);
bool in_any_stack(const void* p);

// `entry` must never return.
void prepare(Fiber* fiber, void (*entry)());
void resume(Fiber* fiber);
void leave();  // back to who resumed the current fiber

}  // namespace emulator
