#include "launch/cache_update_launch.h"

#include <algorithm>

#include "kernels/params.h"
#include "launch/kernel_name.h"

namespace octavo::launch {

namespace {

constexpr uint32_t kThreads = 256;

}  // namespace

std::vector<Launch> launch_cache_update(const CacheUpdateShape& shape) {
  if (shape.num_tokens == 0 || shape.num_kv_heads == 0 || shape.head_dim == 0) {
    return {};
  }
  KernelName kernel = kernel_name("paged_cache_update", {metal_type(shape.page_type), metal_type(shape.value_type)});
  CacheUpdateParams params{
      .num_tokens = shape.num_tokens,
      .num_kv_heads = shape.num_kv_heads,
      .head_dim = shape.head_dim,
      .page_size = shape.page_size,
      .num_pages = shape.num_pages,
      .value_token_stride = shape.values.token,
      .value_head_stride = shape.values.head,
      .value_number_stride = shape.values.number,
  };
  Size grid{static_cast<uint32_t>(shape.head_dim), static_cast<uint32_t>(shape.num_kv_heads),
            static_cast<uint32_t>(shape.num_tokens)};
  uint32_t width = std::min(grid[0], kThreads);
  uint32_t heads = std::min(grid[1], kThreads / width);
  return {{
      .kernel = kernel.name,
      .instantiation = kernel.instantiation,
      .arguments = {{Buffer::pages, true}, {Buffer::values}, {Buffer::slot_mapping}},
      .params = bytes_of(params),
      .grid = grid,
      .group = {width, heads, 1},
      .grid_counts_threads = true,
  }};
}

}  // namespace octavo::launch
