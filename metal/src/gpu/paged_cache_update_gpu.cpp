#include "checks.h"
#include "evaluate.h"
#include "gpu/commands.h"
#include "gpu/strides.h"
#include "launch/cache_update_launch.h"
#include "paged_cache_update.h"

namespace octavo {

void PagedCacheUpdate::eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) {
  using launch::Buffer;
  const mx::array& pages = inputs[0];
  Checks("paged_cache_update").row_contiguous("pages", pages);
  const mx::array& values = inputs[1];
  out.copy_shared_buffer(pages);
  auto launches = launch::launch_cache_update({
      .page_type = element_of(pages),
      .value_type = element_of(values),
      .num_tokens = values.shape(0),
      .num_pages = pages.shape(0),
      .num_kv_heads = pages.shape(1),
      .page_size = pages.shape(2),
      .head_dim = pages.shape(3),
      .values = gpu::strides_of(values),
  });
  gpu::Arrays arrays{{Buffer::pages, out}, {Buffer::values, values}, {Buffer::slot_mapping, inputs[2]}};
  gpu::run(stream(), launches, arrays);
}

}  // namespace octavo
