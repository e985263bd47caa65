// One instruction level's kernels. Compiled once per level with OCTAVO_LEVEL naming the namespace.
#include "cpu/kernels.h"

#include "page_index.h"

namespace octavo::cpu::OCTAVO_LEVEL {
namespace {

float from_bits(uint32_t u) { return __builtin_bit_cast(float, u); }
uint32_t to_bits(float f) { return __builtin_bit_cast(uint32_t, f); }

float half_to_float(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest >= 0x7c00) return from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest < 0x400) return from_bits(sign | to_bits(float(rest) * 0x1p-24f));
  return from_bits(sign | ((rest << 13) + 0x38000000));
}
uint16_t float_to_half(float f) {
  uint32_t u = to_bits(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return sign | 0x7e00;
  if (a >= 0x477ff000) return sign | 0x7c00;
  if (a < 0x38800000) return sign | uint16_t(to_bits(from_bits(a) + 0.5f) - 0x3f000000);
  return sign | uint16_t((a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13);
}
uint16_t float_to_bfloat(float f) {
  uint32_t u = to_bits(f);
  if ((u & 0x7fffffff) > 0x7f800000) return uint16_t(u >> 16 | 0x40);
  return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
float load(const void* p, Element t, int64_t i) {
  if (t == Element::float32) return static_cast<const float*>(p)[i];
  uint16_t h = static_cast<const uint16_t*>(p)[i];
  return t == Element::float16 ? half_to_float(h) : from_bits(uint32_t(h) << 16);
}
void store(void* p, Element t, int64_t i, float v) {
  if (t == Element::float32) static_cast<float*>(p)[i] = v;
  else static_cast<uint16_t*>(p)[i] = t == Element::float16 ? float_to_half(v) : float_to_bfloat(v);
}

void paged_cache_update(const CacheUpdate& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; t++) {
    int slot = a.slots[t];
    if (slot < 0 || slot_page(slot, a.page_size) >= a.num_pages) continue;
    for (int h = 0; h < a.num_kv_heads; h++) {
      int64_t to = page_element(slot_page(slot, a.page_size), h, slot_offset(slot, a.page_size), a.num_kv_heads, a.page_size, a.head_dim);
      for (int d = 0; d < a.head_dim; d++)
        store(a.pages, a.page_type, to + d, load(a.values, a.value_type, (t * a.num_kv_heads + h) * a.head_dim + d));
    }
  }
}

void paged_attention(const Attention& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; u++) {
    int t = int(u / a.num_q_heads), hq = int(u % a.num_q_heads), h = hq / (a.num_q_heads / a.num_kv_heads);
    int D = a.head_dim, b = 0;
    while (b < a.num_rows && !(t >= a.query_start_locs[b] && t < a.query_start_locs[b + 1])) b++;
    float m = -__builtin_inff(), l = 0, acc[256] = {};
    if (b < a.num_rows) {
      int pos = query_position(a.context_lens[b], a.query_start_locs[b + 1] - a.query_start_locs[b], t - a.query_start_locs[b]);
      for (int j = first_visible(pos, a.window); j <= pos; j++) {
        if (j / a.page_size >= a.max_pages) break;
        int page = a.block_table[int64_t(b) * a.max_pages + j / a.page_size];
        if (page < 0 || page >= a.num_pages) continue;
        int64_t at = page_element(page, h, j % a.page_size, a.num_kv_heads, a.page_size, D);
        float s = 0;
        for (int d = 0; d < D; d++) s += load(a.q, a.q_type, u * D + d) * a.scale * load(a.key_pages, a.page_type, at + d);
        if (a.soft_cap > 0) s = a.soft_cap * __builtin_tanhf(s / a.soft_cap);
        float mn = s > m ? s : m, c = __builtin_expf(m - mn), p = __builtin_expf(s - mn);
        m = mn;
        l = l * c + p;
        for (int d = 0; d < D; d++) acc[d] = acc[d] * c + p * load(a.value_pages, a.page_type, at + d);
      }
    }
    if (a.sinks) {
      float s = a.sinks[hq], mn = s > m ? s : m, c = __builtin_expf(m - mn);
      if (l > 0) { l = l * c + __builtin_expf(s - mn); for (int d = 0; d < D; d++) acc[d] *= c; }
    }
    for (int d = 0; d < D; d++) store(a.out, a.q_type, u * D + d, l > 0 ? acc[d] / l : 0.0f);
  }
}

void linear(const Linear& a, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; p++)
    for (int64_t i = 0; i < a.m; i++) {
      float acc[kPanel] = {};
      for (int k = 0; k < a.k; k++)
        for (int j = 0; j < kPanel; j++) acc[j] += a.x[i * a.k + k] * load(a.panels, a.weight_type, (p * a.k + k) * kPanel + j);
      for (int j = 0; j < kPanel && p * kPanel + j < a.n; j++)
        a.out[i * a.n + p * kPanel + j] = acc[j] + (a.bias ? a.bias[p * kPanel + j] : 0.0f);
    }
}

template <typename A>
float weight(const A& a, int64_t p, int k, int j) {
  int per = 32 / a.bits;
  uint32_t w = a.words[(p * (a.k / per) + k / per) * kPanel + j];
  int64_t g = (p * (a.k / a.group_size) + k / a.group_size) * kPanel + j;
  float q = float((w >> (k % per * a.bits)) & ((1u << a.bits) - 1));
  return q * load(a.scales, a.scale_type, g) + load(a.biases, a.scale_type, g);
}

void quantized_linear(const QuantizedLinear& a, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; p++)
    for (int64_t i = 0; i < a.m; i++) {
      float acc[kPanel] = {};
      for (int k = 0; k < a.k; k++)
        for (int j = 0; j < kPanel; j++) acc[j] += a.x[i * a.k + k] * weight(a, p, k, j);
      for (int j = 0; j < kPanel && p * kPanel + j < a.n; j++)
        a.out[i * a.n + p * kPanel + j] = acc[j] + (a.bias ? a.bias[p * kPanel + j] : 0.0f);
    }
}

void embedding(const Embedding& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; t++)
    for (int k = 0; k < a.k; k++) {
      int id = a.ids[t];
      bool ok = id >= 0 && id < a.n;
      a.out[t * a.k + k] = ok ? load(a.panels, a.weight_type, (int64_t(id / kPanel) * a.k + k) * kPanel + id % kPanel) : 0.0f;
    }
}

void quantized_embedding(const QuantizedEmbedding& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; t++)
    for (int k = 0; k < a.k; k++) {
      int id = a.ids[t];
      a.out[t * a.k + k] = id >= 0 && id < a.n ? weight(a, id / kPanel, k, id % kPanel) : 0.0f;
    }
}

}  // namespace

const Kernels kernels{paged_cache_update, paged_attention, linear, quantized_linear, embedding, quantized_embedding};

}  // namespace octavo::cpu::OCTAVO_LEVEL
