#include "cpu/instruction_level.h"

#include <atomic>
#include <stdexcept>

#if defined(OCTAVO_HAS_avx2)
#include <cpuid.h>
#endif

namespace octavo::cpu {

namespace {

struct Level {
  const char* name;
  const Kernels* kernels;
  bool available;
};

#if defined(OCTAVO_HAS_avx2)
// Not every compiler knows this one by name.
bool has_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

// The compiler's check of avx2 includes that the system saves the wide registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
}
#endif

const std::vector<Level>& levels() {
  static const std::vector<Level> all = {
      {"plain", &plain::kernels, true},
#if defined(OCTAVO_HAS_avx2)
      {"avx2", &avx2::kernels, has_avx2()},
      {"avx512", &avx512::kernels, has_avx512()},
#endif
#if defined(OCTAVO_HAS_neon)
      {"neon", &neon::kernels, true},
#endif
  };
  return all;
}

const Level& best_level() {
  const Level* best = &levels().front();
  for (const Level& level : levels()) {
    best = level.available ? &level : best;
  }
  return *best;
}

std::atomic<const Level*>& current_level() {
  static std::atomic<const Level*> current{&best_level()};
  return current;
}

}  // namespace

std::vector<std::string> instruction_levels() {
  std::vector<std::string> names;
  for (const Level& level : levels()) {
    if (level.available) {
      names.emplace_back(level.name);
    }
  }
  return names;
}

std::string instruction_level() {
  return current_level().load()->name;
}

void set_instruction_level(const std::string& name) {
  std::string known;
  for (const Level& level : levels()) {
    if (!level.available) {
      continue;
    }
    if (name == level.name) {
      current_level().store(&level);
      return;
    }
    known += (known.empty() ? "" : " or ") + std::string(level.name);
  }
  throw std::invalid_argument("[set_instruction_level] expected " + known + ", got " + name);
}

const Kernels& kernels() {
  return *current_level().load(std::memory_order_relaxed)->kernels;
}

}  // namespace octavo::cpu
