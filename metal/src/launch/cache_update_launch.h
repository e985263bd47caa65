#pragma once

#include <vector>

#include "cpu/kernels.h"
#include "launch/launch.h"

namespace octavo::launch {

struct CacheUpdateShape {
  cpu::Element page_type;
  cpu::Element value_type;
  int num_tokens;
  int num_pages;
  int num_kv_heads;
  int page_size;
  int head_dim;
  Strides values;
};

// No launch for no tokens.
std::vector<Launch> launch_cache_update(const CacheUpdateShape& shape);

}  // namespace octavo::launch
