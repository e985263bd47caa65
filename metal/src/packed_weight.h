// What linear, quantized_linear and embedding share: the checks of packed weights and their sizes.
//
// A weight [N, K] is stored in panels of 16 neighbouring rows, k-major inside a panel, so that one step along k
// loads the 16 outputs' numbers side by side. Rows past N are padding.
#pragma once

#include "checks.h"
#include "cpu/kernels.h"
#include "mlx/mlx.h"

namespace octavo {

inline int num_panels(int n) {
  return (n + cpu::kPanel - 1) / cpu::kPanel;
}

struct Quantization {
  int group_size;
  int bits;
};

void check_panels(const Checks& checks, const mx::array& panels, int out_features);
void check_quantized(const Checks& checks, const mx::array& words, const mx::array& scales, const mx::array& biases,
                     int out_features, Quantization quantization);
void check_ids(const Checks& checks, const mx::array& ids);

inline int quantized_in_features(const mx::array& words, int bits) {
  return words.shape(1) * (32 / bits);
}

}  // namespace octavo
