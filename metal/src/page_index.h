// Where a token's numbers lie in the pages. Plain C subset: shared by the CPU kernels and the shaders.
//
// pages are [P, H_kv, page_size, D], row-contiguous:
//   page 0: head 0: slot 0: D numbers, slot 1: D numbers, ... head 1: ...   page 1: ...
#ifndef OCTAVO_PAGE_INDEX_H
#define OCTAVO_PAGE_INDEX_H

// First number of one token's row of one head. 64 bits: a large cache has more than 2^31 numbers.
inline long page_element(int page_id, int kv_head, int offset, int num_kv_heads, int page_size, int head_dim) {
  return (((long)page_id * num_kv_heads + kv_head) * page_size + offset) * head_dim;
}

inline int slot_page(int slot, int page_size) {
  return slot / page_size;
}

inline int slot_offset(int slot, int page_size) {
  return slot % page_size;
}

// A row's queries are the last num_queries positions of its context.
inline int query_position(int context_len, int num_queries, int query) {
  return context_len - num_queries + query;
}

// The first position a query may see. window 0 means no window.
inline int first_visible(int position, int window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

#endif
