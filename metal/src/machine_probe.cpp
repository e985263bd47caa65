#include "machine_probe.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "cpu/instruction_level.h"
#include "cpu/kernels.h"
#include "cpu/thread_pool.h"

namespace octavo {

namespace {

constexpr std::align_val_t kCacheLine{64};
constexpr int64_t kSumsPerBlock = 8 * cpu::kPanel;  // at most

struct Free {
  void operator()(float* numbers) const { ::operator delete[](numbers, kCacheLine); }
};
using Numbers = std::unique_ptr<float[], Free>;

// Every page is touched: memory that was never written costs nothing to read.
Numbers make_numbers(int64_t count) {
  Numbers numbers(new (kCacheLine) float[count]);
  std::fill_n(numbers.get(), count, 1.0f);
  return numbers;
}

void expect_positive(const std::string& op, const std::string& name, int64_t count) {
  if (count < 1) {
    throw std::invalid_argument("[" + op + "] expected " + name + " of at least 1, got " + std::to_string(count));
  }
}

// In numbers.
int64_t block_size(const std::string& op, int64_t block_bytes) {
  if (block_bytes < 1 || block_bytes % 1024 != 0) {
    throw std::invalid_argument("[" + op + "] expected block_bytes of whole KiB, got " + std::to_string(block_bytes));
  }
  return block_bytes / static_cast<int64_t>(sizeof(float));
}

template <class Args>
double best_seconds(void (*kernel)(const Args&, int64_t, int64_t), const Args& args, int64_t units, int repeats) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; i++) {
    auto start = std::chrono::steady_clock::now();
    cpu::thread_pool().run(units, 1, [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

double probe_read(int64_t block_bytes, int64_t num_blocks, int passes, int repeats) {
  int64_t block = block_size("probe_read", block_bytes);
  expect_positive("probe_read", "num_blocks", num_blocks);
  expect_positive("probe_read", "passes", passes);
  expect_positive("probe_read", "repeats", repeats);
  Numbers data = make_numbers(block * num_blocks);
  Numbers sums = make_numbers(kSumsPerBlock * num_blocks);
  cpu::ReadProbe args{.data = data.get(), .sums = sums.get(), .block = block, .passes = passes};
  return best_seconds(cpu::kernels().probe_read, args, num_blocks, repeats);
}

double probe_triad(int64_t block_bytes, int64_t num_blocks, int repeats) {
  int64_t block = block_size("probe_triad", block_bytes);
  expect_positive("probe_triad", "num_blocks", num_blocks);
  expect_positive("probe_triad", "repeats", repeats);
  Numbers a = make_numbers(block * num_blocks);
  Numbers b = make_numbers(block * num_blocks);
  Numbers out = make_numbers(block * num_blocks);
  cpu::TriadProbe args{.a = a.get(), .b = b.get(), .out = out.get(), .block = block, .scale = 0.5f};
  return best_seconds(cpu::kernels().probe_triad, args, num_blocks, repeats);
}

double probe_fma(int64_t num_blocks, int64_t rounds, int repeats) {
  expect_positive("probe_fma", "num_blocks", num_blocks);
  expect_positive("probe_fma", "rounds", rounds);
  expect_positive("probe_fma", "repeats", repeats);
  Numbers sums = make_numbers(cpu::kPanel * num_blocks);
  cpu::FmaProbe args{.sums = sums.get(), .rounds = rounds, .factor = 0.5f};
  return best_seconds(cpu::kernels().probe_fma, args, num_blocks, repeats);
}

}  // namespace octavo
