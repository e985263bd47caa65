// What the machine can do at most: kernels that only read, only write what they read, or only multiply and add.
#pragma once

#include "cpu/simd.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

constexpr int kReadVecs = 8;  // chains of additions side by side, so that the loads are what takes time

// The sums go to memory, so no load can be left out.
void probe_read(const ReadProbe& args, int64_t begin, int64_t end) {
  for (int64_t unit = begin; unit < end; unit++) {
    Vec sums[kReadVecs] = {};
    for (int pass = 0; pass < args.passes; pass++) {
      const float* block = args.data + unit * args.block;
      for (int64_t i = 0; i < args.block; i += kReadVecs * kWidth) {
        for (int v = 0; v < kReadVecs; v++) {
          sums[v] += load(block + i + v * kWidth);
        }
      }
    }
    for (int v = 0; v < kReadVecs; v++) {
      store(args.sums + (unit * kReadVecs + v) * kPanel, sums[v]);
    }
  }
}

// out = a + scale * b, the third of John McCalpin's STREAM operations that reads two arrays and writes one.
void probe_triad(const TriadProbe& args, int64_t begin, int64_t end) {
  Vec scale = set(args.scale);
  for (int64_t i = begin * args.block; i < end * args.block; i += kWidth) {
    store(args.out + i, fma(scale, load(args.b + i), load(args.a + i)));
  }
}

static_assert(kProbeRows % kMaxRows == 0);

// Chains begin apart, or the compiler would see that they are one and the same.
void probe_fma(const FmaProbe& args, int64_t begin, int64_t end) {
  constexpr int kChains = kMaxRows * kVecs;
  Vec factor = set(args.factor);
  for (int64_t unit = begin; unit < end; unit++) {
    Vec sums[kChains];
    for (int c = 0; c < kChains; c++) {
      sums[c] = set(static_cast<float>(unit + c));
    }
    for (int64_t step = 0; step < args.rounds * (kProbeRows / kMaxRows); step++) {
      for (int c = 0; c < kChains; c++) {
        sums[c] = fma(sums[c], factor, factor);
      }
    }
    Vec total{};
    for (int c = 0; c < kChains; c++) {
      total += sums[c];
    }
    store(args.sums + unit * kPanel, total);
  }
}

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
