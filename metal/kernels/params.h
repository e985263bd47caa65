// What the host tells the kernels beside the buffers: one struct an op, the same text in C++ and in Metal.
// Counts are 32 bits; element offsets are computed in 64 bits (page_index.h).
#ifndef OCTAVO_PARAMS_H
#define OCTAVO_PARAMS_H

struct CacheUpdateParams {
  int num_tokens;
  int num_kv_heads;
  int head_dim;
  int page_size;
  int num_pages;
  int value_token_stride;  // values lie as they come: numbers from one token, head, number to the next
  int value_head_stride;
  int value_number_stride;
};

struct AttentionParams {
  int num_tokens;
  int num_rows;
  int max_pages;   // row stride of the block table
  int num_pages;
  int num_q_heads;
  int num_kv_heads;
  int page_size;
  int window;          // 0: none
  int q_token_stride;  // q lies as it comes
  int q_head_stride;
  int q_number_stride;
  int num_splits;      // pieces of the context in the decode schedule
  int units_are_rows;  // decode: 1: a unit is a row with one query, 0: a unit is a token
  int min_queries;     // prefill: rows with fewer are left to the decode schedule
  int has_sinks;
  float query_scale;  // q * query_scale . k is the exponent of 2, or what goes into tanh
  float score_cap;    // soft cap * log2(e), 0: none
};

static_assert(sizeof(CacheUpdateParams) == 32, "host and device agree on the layout");
static_assert(sizeof(AttentionParams) == 68, "host and device agree on the layout");

#endif
