#include "packed_weight.h"

namespace octavo {

void check_panels(const Checks& checks, const mx::array& panels, int out_features) {
  checks.rank("panels", panels, 3, "[ceil(N / 16), K, 16]");
  checks.floating("panels", panels);
  checks.not_empty("panels", panels);
  checks.size("panels", panels, 0, num_panels(out_features), "ceil(N / 16)");
  checks.size("panels", panels, 2, cpu::kPanel, "panel width");
}

void check_quantized(const Checks& checks, const mx::array& words, const mx::array& scales, const mx::array& biases,
                     int out_features, Quantization quantization) {
  int bits = quantization.bits;
  int group_size = quantization.group_size;
  checks.expect(bits == 2 || bits == 4 || bits == 8, bits, "2, 4 or 8 bits");
  checks.expect(group_size == 32 || group_size == 64 || group_size == 128, group_size,
                "a group size of 32, 64 or 128");
  checks.rank("words", words, 3, "[ceil(N / 16), K * bits / 32, 16]");
  checks.dtype("words", words, mx::uint32);
  checks.not_empty("words", words);
  checks.size("words", words, 0, num_panels(out_features), "ceil(N / 16)");
  checks.size("words", words, 2, cpu::kPanel, "panel width");
  checks.rank("scales", scales, 3, "[ceil(N / 16), K / group_size, 16]");
  checks.floating("scales", scales);
  mx::Shape groups{words.shape(0), quantized_in_features(words, bits) / group_size, cpu::kPanel};
  checks.expect(scales.shape() == groups && quantized_in_features(words, bits) % group_size == 0, scales,
                "scales ", groups, " for words ", words);
  checks.expect(biases.shape() == scales.shape() && biases.dtype() == scales.dtype(), biases, "biases like scales, ",
                scales);
}

void check_ids(const Checks& checks, const mx::array& ids) {
  checks.rank("ids", ids, 1, "[T]");
  checks.dtype("ids", ids, mx::int32);
}

}  // namespace octavo
