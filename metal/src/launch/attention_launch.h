// Which schedules run for a batch, from its shapes alone: the host does not wait for the lengths on the device.
//
//   T <= B                  every row may have one query: decode over the tokens
//   T > B, several rows     decode over the rows with one query, prefill over the others
//   one row, T > 1          prefill
#pragma once

#include <vector>

#include "cpu/kernels.h"
#include "launch/launch.h"

namespace octavo::launch {

struct AttentionShape {
  cpu::Element q_type;
  cpu::Element page_type;
  int num_tokens;   // T
  int num_rows;     // B
  int max_pages;
  int num_pages;
  int num_q_heads;
  int num_kv_heads;
  int page_size;
  int head_dim;
  Strides q;
  int window;       // 0: none
  float scale;
  float soft_cap;   // 0: none
  bool has_sinks;
};

struct AttentionLaunches {
  std::vector<Launch> launches;  // in order
  int64_t partial_floats = 0;    // size of Buffer::partials; 0: not used
};

// Throws std::invalid_argument for a head size that no kernel can have.
AttentionLaunches launch_attention(const AttentionShape& shape);

}  // namespace octavo::launch
