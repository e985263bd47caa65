// What the compiler calls from a kernel that is built with -fsanitize=thread and some checks of -fsanitize=undefined.
// The sanitizers' own run times are not linked.
#include <cstdint>
#include <cstring>

#include "fiber.h"
#include "shadow_memory.h"

extern "C" void emulator_note_address(const void* instruction);

namespace {

void check(const void* p, unsigned long bytes, bool write, const void* from) {
  if (emulator::current != nullptr) {
    emulator_note_address(from);
    emulator::memory.check(p, bytes, write);
  }
}

// Every data block of the undefined-behaviour checks starts with a place in the source.
struct SourcePlace {
  const char* file;
  uint32_t line;
  uint32_t column;
};

}  // namespace

#define CALLER __builtin_return_address(0)

#define HOOKS_OF_SIZE(n)                                                            \
  void __tsan_read##n(void* p) { check(p, n, false, CALLER); }                      \
  void __tsan_write##n(void* p) { check(p, n, true, CALLER); }                      \
  void __tsan_unaligned_read##n(void* p) { check(p, n, false, CALLER); }            \
  void __tsan_unaligned_write##n(void* p) { check(p, n, true, CALLER); }

#define UNDEFINED(name, what)                                                       \
  void __ubsan_handle_##name##_abort(SourcePlace* place, ...) {                     \
    emulator_fail("undefined behaviour: " what " (%s:%u)", place->file, place->line); \
  }

extern "C" {

HOOKS_OF_SIZE(1)
HOOKS_OF_SIZE(2)
HOOKS_OF_SIZE(4)
HOOKS_OF_SIZE(8)
HOOKS_OF_SIZE(16)

void __tsan_read_range(void* p, unsigned long bytes) { check(p, bytes, false, CALLER); }
void __tsan_write_range(void* p, unsigned long bytes) { check(p, bytes, true, CALLER); }
void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  check(from, bytes, false, CALLER);
  check(to, bytes, true, CALLER);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memset(void* to, int value, unsigned long bytes) {
  check(to, bytes, true, CALLER);
  return std::memset(to, value, bytes);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

UNDEFINED(out_of_bounds, "array index out of bounds")
UNDEFINED(add_overflow, "signed overflow in +")
UNDEFINED(sub_overflow, "signed overflow in -")
UNDEFINED(mul_overflow, "signed overflow in *")
UNDEFINED(negate_overflow, "signed overflow in a negation")
UNDEFINED(divrem_overflow, "division by zero or overflow")
UNDEFINED(shift_out_of_bounds, "shift out of range")
UNDEFINED(type_mismatch_v1, "misaligned or null access")
UNDEFINED(float_cast_overflow, "float to integer overflow")
}
