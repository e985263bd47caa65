// paged_cache_update: rows converted to the dtype of the pages, at their slots.
#pragma once

#include "cpu/simd.h"
#include "page_index.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

template <class To, class From>
void copy_row(To* to, const From* from, int count) {
  int i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    store(to + i, load(from + i));
  }
  if (i < count) {
    store_part(to + i, load_part(from + i, count - i), count - i);
  }
}

inline void copy_row(float* to, const float* from, int count) { __builtin_memcpy(to, from, sizeof(float) * count); }
inline void copy_row(Half* to, const Half* from, int count) { __builtin_memcpy(to, from, sizeof(Half) * count); }
inline void copy_row(BFloat* to, const BFloat* from, int count) { __builtin_memcpy(to, from, sizeof(BFloat) * count); }

template <class To, class From>
void write_token(const CacheUpdate& a, int64_t token) {
  int slot = a.slots[token];
  int page = slot_page(slot, a.page_size);
  if (slot < 0 || page >= a.num_pages) {
    return;
  }
  int offset = slot_offset(slot, a.page_size);
  for (int head = 0; head < a.num_kv_heads; head++) {
    int64_t to = page_element(page, head, offset, a.num_kv_heads, a.page_size, a.head_dim);
    int64_t from = token * a.value_stride + int64_t{head} * a.head_dim;
    copy_row(static_cast<To*>(a.pages) + to, static_cast<const From*>(a.values) + from, a.head_dim);
  }
}

void paged_cache_update(const CacheUpdate& a, int64_t begin, int64_t end) {
  with_element(a.page_type, [&]<class To>() {
    with_element(a.value_type, [&]<class From>() {
      for (int64_t token = begin; token < end; token++) {
        write_token<To, From>(a, token);
      }
    });
  });
}

}  // namespace
}  // namespace octavo::cpu::OCTAVO_LEVEL
