// Which row of the batch a threadgroup works for. Grids are cut by shapes alone: the host never waits to learn
// how the tokens fall on the rows, so a threadgroup finds its row by binary search.
#ifndef OCTAVO_QUERY_ROW_H
#define OCTAVO_QUERY_ROW_H

#include "page_index.h"
#include "params.h"

// First token of a row, kept inside [0, num_tokens].
inline int row_start(const device int* query_start_locs, int row, int num_tokens) {
  return clamp(query_start_locs[row], 0, num_tokens);
}

// Number of the first block of a row, if every row may leave one block unfilled.
inline int first_block(int start, int row, int rows_per_token, int block_rows) {
  return start * rows_per_token / block_rows + row;
}

// The last row whose first block is at most `block`; -1 if there is none. With one row per token and blocks of one
// row, first_block counts tokens plus rows; `step` 0 leaves the rows out.
inline int find_row(const device int* query_start_locs, int num_rows, int num_tokens, int block, int rows_per_token,
                    int block_rows, int step) {
  int low = -1;
  int high = num_rows;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    const int start = row_start(query_start_locs, middle, num_tokens);
    if (first_block(start, middle * step, rows_per_token, block_rows) <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// One query of the decode schedule. token -1: this unit is not served; position -1: nothing to see.
struct DecodeQuery {
  int token;
  int row;
  int position;
};

inline DecodeQuery find_decode_query(int unit, const device int* query_start_locs, const device int* context_lens,
                                     constant AttentionParams& p) {
  DecodeQuery query = {unit, unit, -1};
  if (p.units_are_rows == 0) {
    query.row = find_row(query_start_locs, p.num_rows, p.num_tokens, unit, 1, 1, 0);
    if (query.row < 0) {
      return query;
    }
  }
  const int start = row_start(query_start_locs, query.row, p.num_tokens);
  const int num_queries = row_start(query_start_locs, query.row + 1, p.num_tokens) - start;
  if (p.units_are_rows != 0) {
    query.token = num_queries == 1 ? start : -1;
  }
  if (query.token >= 0 && query.token - start < num_queries) {
    query.position = max(-1, query_position(context_lens[query.row], num_queries, query.token - start));
  }
  return query;
}

// Number d of a query head.
inline long query_element(int token, int head, int d, constant AttentionParams& p) {
  return static_cast<long>(token) * p.q_token_stride + static_cast<long>(head) * p.q_head_stride +
         static_cast<long>(d) * p.q_number_stride;
}

// The page that holds a position of a row; -1 if it is absent.
inline int page_at(const device int* block_table, int row, int position, constant AttentionParams& p) {
  const int index = slot_page(position, p.page_size);
  if (index >= p.max_pages) {
    return -1;
  }
  const int page = block_table[static_cast<long>(row) * p.max_pages + index];
  return page < p.num_pages ? page : -1;
}

#endif
