// paged_cache_update: one thread per new number. values [T, H_kv, D] -> pages [P, H_kv, page_size, D].
// A row whose slot is outside the pages is not written.
#include "page_index.h"
#include "params.h"

template <typename P, typename V>
[[kernel]] void paged_cache_update(
    device P* pages [[buffer(0)]],
    const device V* values [[buffer(1)]],
    const device int* slot_mapping [[buffer(2)]],
    constant CacheUpdateParams& p [[buffer(3)]],
    uint3 thread_position [[thread_position_in_grid]]) {
  const int d = static_cast<int>(thread_position.x);
  const int head = static_cast<int>(thread_position.y);
  const int token = static_cast<int>(thread_position.z);
  const int slot = slot_mapping[token];
  const int page = slot_page(slot, p.page_size);
  if (slot < 0 || page >= p.num_pages) {
    return;
  }
  const int offset = slot_offset(slot, p.page_size);
  const long to = page_element(page, head, offset, p.num_kv_heads, p.page_size, p.head_dim) + d;
  const long from = static_cast<long>(token) * p.value_token_stride + static_cast<long>(head) * p.value_head_stride +
                    static_cast<long>(d) * p.value_number_stride;
  pages[to] = static_cast<P>(static_cast<float>(values[from]));
}
