// The whole source that is compiled on the user's machine, once for each kernel that is used: the build puts the
// quoted files in their places, the launch logic adds the line that instantiates a kernel.
#include <metal_stdlib>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>

using namespace metal;

#include "paged_attention_decode.metal"
#include "paged_attention_merge.metal"
#include "paged_attention_prefill.metal"
#include "paged_cache_update.metal"
