// One instruction level's kernels. Compiled once per level, with OCTAVO_LEVEL as the name of its namespace.
#include "cpu/kernels.h"

#include "cpu/embedding_kernel.h"
#include "cpu/linear_kernel.h"
#include "cpu/paged_attention_kernel.h"
#include "cpu/paged_cache_update_kernel.h"
#include "cpu/probe_kernel.h"
#include "cpu/row_kernels.h"

namespace octavo::cpu::OCTAVO_LEVEL {

const Kernels kernels{
    .paged_cache_update = paged_cache_update,
    .paged_attention = paged_attention,
    .paged_attention_merge = paged_attention_merge,
    .linear = linear,
    .quantized_linear = quantized_linear,
    .embedding = embedding,
    .quantized_embedding = quantized_embedding,
    .rms_norm = rms_norm,
    .rotary_heads = rotary_heads,
    .silu_mul = silu_mul,
    .probe_read = probe_read,
    .probe_triad = probe_triad,
    .probe_fma = probe_fma,
};

}  // namespace octavo::cpu::OCTAVO_LEVEL
