// The border between MLX and the arithmetic: raw pointers and sizes in, nothing of MLX, nothing of std.
//
// Each op has one kernel that works on a range of its independent units, so any split of the units over
// threads gives the same numbers. All kernels of one instruction level form one table.
#pragma once

#include <cstdint>

namespace octavo::cpu {

enum class Element : int32_t { float32, float16, bfloat16 };

// Outputs of a linear layer are computed in panels of this many neighbouring rows of the weight.
constexpr int kPanel = 16;

// A unit of linear work is one panel times at most this many rows of x.
constexpr int kLinearRows = 192;

constexpr int64_t linear_panels(int n) {
  return (int64_t{n} + kPanel - 1) / kPanel;
}

constexpr int64_t linear_units(int64_t m, int n) {
  return (m + kLinearRows - 1) / kLinearRows * linear_panels(n);
}

// In multiply-adds / 8.
constexpr int64_t linear_work_per_unit(int64_t m, int k) {
  return (m < kLinearRows ? m : kLinearRows) * k * (kPanel / 8);
}

// Attention takes tokens in tiles and partitions that are aligned to absolute positions in the sequence.
constexpr int kAttentionTile = 64;
constexpr int kAttentionPartition = 256;
constexpr int kAttentionRows = 48;  // query rows of one unit: whole register blocks at every level
constexpr int kMaxHeadDim = 256;

struct CacheUpdate {
  void* pages;           // [P, H_kv, page_size, D]
  const void* values;    // [T, H_kv, D], tokens value_stride numbers apart
  const int32_t* slots;  // [T]
  int64_t value_stride;
  Element page_type;
  Element value_type;
  int num_pages;
  int num_kv_heads;
  int page_size;
  int head_dim;
};

// Query rows of one sequence and one KV head. Row r of a sequence is head r % G of query r / G, where G is the
// number of query heads per KV head.
struct AttentionUnit {
  int row;          // of the batch
  int kv_head;
  int first_query;  // token index in q of the sequence's first query
  int num_queries;  // of the sequence
  int first_row;    // query rows [first_row, first_row + num_rows)
  int num_rows;
  int first_partition;
  int num_partitions;
  int64_t work;     // multiply-adds / 8, to share the units out fairly
  int64_t partial;  // where in partials the results of these partitions lie; -1: the unit covers all of them
};

struct Attention {
  const void* q;                    // [T, H_q, D], tokens q_stride numbers apart
  const void* key_pages;            // [P, H_kv, page_size, D]
  const void* value_pages;          // [P, H_kv, page_size, D]
  const int32_t* block_table;       // [B, max_pages]
  const int32_t* context_lens;      // [B]
  const int32_t* query_start_locs;  // [B + 1]
  const float* sinks;               // [H_q] or null
  void* out;                        // [T, H_q, D]
  const AttentionUnit* units;
  const AttentionUnit* merges;      // all partitions of each block that was split
  int64_t q_stride;
  float* partials;                  // per partition: top [rows], sum [rows], values [rows, D up to whole panels]
  Element q_type;
  Element page_type;
  int num_tokens;
  int num_rows;
  int max_pages;
  int num_pages;
  int num_q_heads;
  int num_kv_heads;
  int page_size;
  int head_dim;
  int window;      // 0: none
  float scale;
  float soft_cap;  // 0: none
};

struct Linear {
  const float* x;      // [M, K]
  const void* panels;  // [ceil(N / 16), K, 16]
  const float* bias;   // [N] or null
  const float* residual;  // [M, N] or null: added to the result
  float* out;          // [M, N]
  Element weight_type;
  int64_t m;
  int n;
  int k;
};

struct QuantizedLinear {
  const float* x;         // [M, K]
  const uint32_t* words;  // [ceil(N / 16), K * bits / 32, 16]
  const void* scales;     // [ceil(N / 16), K / group_size, 16]
  const void* biases;     // [ceil(N / 16), K / group_size, 16]
  const float* bias;      // [N] or null
  const float* residual;  // [M, N] or null: added to the result
  float* out;             // [M, N]
  Element scale_type;
  int64_t m;
  int n;
  int k;
  int bits;
  int group_size;
};

struct Embedding {
  const void* panels;  // [ceil(N / 16), K, 16]
  const int32_t* ids;  // [T]
  float* out;          // [T, K]
  Element weight_type;
  int n;
  int k;
};

struct QuantizedEmbedding {
  const uint32_t* words;  // [ceil(N / 16), K * bits / 32, 16]
  const void* scales;     // [ceil(N / 16), K / group_size, 16]
  const void* biases;     // [ceil(N / 16), K / group_size, 16]
  const int32_t* ids;     // [T]
  float* out;             // [T, K]
  Element scale_type;
  int n;
  int k;
  int bits;
  int group_size;
};

struct RMSNorm {
  const float* x;       // [T, H, D], tokens x_stride numbers apart
  const float* weight;  // [num_weights, D]
  float* out;           // [T, H, D]
  int64_t x_stride;
  int num_heads;
  int num_weights;  // 1, or one per head
  int dim;
  float eps;
};

struct RotaryHeads {
  const float* x;            // [T, H_q + H_kv, D], tokens x_stride numbers apart
  const float* cos;          // [T, D / 2]
  const float* sin;          // [T, D / 2]
  const float* norm_weight;  // [H_q + H_kv, D] or null
  float* q;                  // [T, H_q, D]
  float* k;                  // [T, H_kv, D]
  int64_t x_stride;
  int num_heads;
  int num_kv_heads;
  int head_dim;
  float norm_eps;
};

struct SiluMul {
  const float* gate_up;  // [T, 2, I], tokens `stride` numbers apart
  float* out;            // [T, I]
  int64_t stride;
  int dim;
};

// Rows of the widest register block: every level's own block divides it, so a round is the same work at all.
constexpr int kProbeRows = 12;
constexpr int kProbeFlops = 2 * kProbeRows * kPanel;

struct ReadProbe {
  const float* data;  // [units, block]
  float* sums;        // [units, 8, kPanel]
  int64_t block;      // numbers, a multiple of 8 * kPanel
  int passes;
};

struct TriadProbe {
  const float* a;  // [units, block]
  const float* b;
  float* out;
  int64_t block;  // numbers, a multiple of kPanel
  float scale;
};

struct FmaProbe {
  float* sums;     // [units, kPanel]
  int64_t rounds;  // of kProbeFlops
  float factor;
};

struct Kernels {
  void (*paged_cache_update)(const CacheUpdate&, int64_t begin, int64_t end);
  void (*paged_attention)(const Attention&, int64_t begin, int64_t end);
  void (*paged_attention_merge)(const Attention&, int64_t begin, int64_t end);
  void (*linear)(const Linear&, int64_t begin, int64_t end);
  void (*quantized_linear)(const QuantizedLinear&, int64_t begin, int64_t end);
  void (*embedding)(const Embedding&, int64_t begin, int64_t end);
  void (*quantized_embedding)(const QuantizedEmbedding&, int64_t begin, int64_t end);
  void (*rms_norm)(const RMSNorm&, int64_t begin, int64_t end);
  void (*rotary_heads)(const RotaryHeads&, int64_t begin, int64_t end);
  void (*silu_mul)(const SiluMul&, int64_t begin, int64_t end);
  void (*probe_read)(const ReadProbe&, int64_t begin, int64_t end);
  void (*probe_triad)(const TriadProbe&, int64_t begin, int64_t end);
  void (*probe_fma)(const FmaProbe&, int64_t begin, int64_t end);
};

namespace plain {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace neon {
extern const Kernels kernels;
}

}  // namespace octavo::cpu
