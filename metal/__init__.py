"""The kernels of Octavo: MLX operations over paged K/V and packed weights.

This package knows pages, slots and block tables; it knows nothing of sequences, requests or models.
On CPU in float32 a row's result is bit for bit the same whatever the other rows, the batch size,
the number of threads, the page size and placement, or the way queries are cut into chunks: every
output number has one fixed order of arithmetic within an instruction level.
"""

from metal.ops import (
    embedding,
    empty,
    instruction_level,
    instruction_levels,
    linear,
    num_threads,
    paged_attention,
    paged_cache_update,
    quantized_linear,
    rms_norm,
    rotary_heads,
    set_instruction_level,
    set_num_threads,
    silu_mul,
)
from metal.packing import PackedLinear, PackedQuantized, pack_linear, pack_quantized

__all__ = [
    "PackedLinear",
    "PackedQuantized",
    "embedding",
    "empty",
    "instruction_level",
    "instruction_levels",
    "linear",
    "num_threads",
    "pack_linear",
    "pack_quantized",
    "paged_attention",
    "paged_cache_update",
    "quantized_linear",
    "rms_norm",
    "rotary_heads",
    "set_instruction_level",
    "set_num_threads",
    "silu_mul",
]
