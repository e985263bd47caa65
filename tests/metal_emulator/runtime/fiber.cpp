#include "fiber.h"

#include <sys/mman.h>

namespace emulator {

Fiber fibers[kMaxThreads];
Fiber* current;

namespace {

char* stacks;

}  // namespace

void allocate_stacks() {
  if (stacks == nullptr) {
    stacks = static_cast<char*>(mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
}

char* stack_of(const Fiber* fiber) { return stacks + (fiber - fibers) * kStackBytes; }

bool in_any_stack(const void* p) { return p >= stacks && p < stacks + kMaxThreads * kStackBytes; }

#ifdef __x86_64__

// ucontext saves the signal mask with a system call at every switch; this saves what the calling convention asks.
extern "C" void emulator_switch(void** save, void* to);
asm(R"(.text
.type emulator_switch,@function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch,.-emulator_switch
)");

namespace {

void* scheduler;

}  // namespace

void prepare(Fiber* fiber, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  void** top = reinterpret_cast<void**>(stack_of(fiber) + kStackBytes - 64);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; i++) {
    *--top = nullptr;
  }
  fiber->stack_pointer = top;
}

void resume(Fiber* fiber) {
  current = fiber;
  emulator_switch(&scheduler, fiber->stack_pointer);
  current = nullptr;
}

void leave() { emulator_switch(&current->stack_pointer, scheduler); }

#else

namespace {

ucontext_t scheduler;

}  // namespace

void prepare(Fiber* fiber, void (*entry)()) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack_of(fiber);
  fiber->context.uc_stack.ss_size = kStackBytes;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, entry, 0);
}

void resume(Fiber* fiber) {
  current = fiber;
  swapcontext(&scheduler, &fiber->context);
  current = nullptr;
}

void leave() { swapcontext(&current->context, &scheduler); }

#endif

}  // namespace emulator
