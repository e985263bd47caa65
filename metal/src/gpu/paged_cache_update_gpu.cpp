#include "checks.h"
#include "evaluate.h"
#include "gpu/commands.h"
#include "launch/cache_update_launch.h"
#include "paged_cache_update.h"

namespace octavo {

void PagedCacheUpdate::eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) {
  using launch::Buffer;
  const mx::array& pages = inputs[0];
  Checks("paged_cache_update").row_contiguous("pages", pages);
  TokenRows values = gpu::token_rows(inputs[1], stream());
  out.copy_shared_buffer(pages);
  auto launches = launch::launch_cache_update({
      .page_type = element_of(pages),
      .value_type = element_of(values.array),
      .num_tokens = values.array.shape(0),
      .num_pages = pages.shape(0),
      .num_kv_heads = pages.shape(1),
      .page_size = pages.shape(2),
      .head_dim = pages.shape(3),
      .value_stride = static_cast<int>(values.stride),
  });
  gpu::Arrays arrays{{Buffer::pages, out}, {Buffer::values, values.array}, {Buffer::slot_mapping, inputs[2]}};
  gpu::run(stream(), launches, arrays);
}

}  // namespace octavo
