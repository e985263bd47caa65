#include "paged_cache_update.h"

#include "checks.h"
#include "cpu/instruction_level.h"
#include "evaluate.h"
#include "token_rows.h"

namespace octavo {

namespace {

const Checks checks("paged_cache_update");

void check(const mx::array& pages, const mx::array& values, const mx::array& slot_mapping) {
  checks.rank("pages", pages, 4, "[P, H_kv, page_size, D]");
  checks.floating("pages", pages);
  checks.not_empty("pages", pages);
  checks.row_contiguous("pages", pages);
  checks.rank("values", values, 3, "[T, H_kv, D]");
  checks.floating("values", values);
  checks.size("values", values, 1, pages.shape(1), "H_kv");
  checks.size("values", values, 2, pages.shape(3), "D");
  checks.rank("slot_mapping", slot_mapping, 1, "[T]");
  checks.dtype("slot_mapping", slot_mapping, mx::int32);
  checks.size("slot_mapping", slot_mapping, 0, values.shape(0), "T");
}

}  // namespace

mx::array paged_cache_update(const mx::array& pages, const mx::array& values, const mx::array& slot_mapping) {
  check(pages, values, slot_mapping);
  auto stream = mx::to_stream({});
  return mx::array(pages.shape(), pages.dtype(), std::make_shared<PagedCacheUpdate>(stream),
                   {pages, values, laid_out(slot_mapping, stream)});
}

void PagedCacheUpdate::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  const mx::array& pages = inputs[0];
  TokenRows values = token_rows(inputs[1], stream());
  checks.row_contiguous("pages", pages);
  out.copy_shared_buffer(pages);
  cpu::CacheUpdate args{
      .pages = out.data<void>(),
      .values = values.array.data<void>(),
      .slots = row_contiguous(inputs[2], stream()).data<int32_t>(),
      .value_stride = values.stride,
      .page_type = element_of(pages),
      .value_type = element_of(values.array),
      .num_pages = pages.shape(0),
      .num_kv_heads = pages.shape(1),
      .page_size = pages.shape(2),
      .head_dim = pages.shape(3),
  };
  dispatch_kernel(stream(), cpu::kernels().paged_cache_update, args, values.array.shape(0),
                  int64_t{args.num_kv_heads} * args.head_dim);
}

}  // namespace octavo
