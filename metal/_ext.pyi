from collections.abc import Sequence

import mlx.core as mx

mlx_version: str
probe_flops: int

def empty(shape: Sequence[int], dtype: mx.Dtype) -> mx.array: ...
def paged_cache_update(pages: mx.array, values: mx.array, slot_mapping: mx.array) -> mx.array: ...
def paged_attention(
    q: mx.array,
    key_pages: mx.array,
    value_pages: mx.array,
    block_table: mx.array,
    context_lens: mx.array,
    query_start_locs: mx.array,
    *,
    scale: float,
    window: int | None,
    soft_cap: float | None,
    sinks: mx.array | None,
) -> mx.array: ...
def linear(
    x: mx.array,
    panels: mx.array,
    bias: mx.array | None,
    *,
    norm_weight: mx.array | None,
    norm_eps: float,
    residual: mx.array | None,
    out_features: int,
) -> mx.array: ...
def quantized_linear(
    x: mx.array,
    words: mx.array,
    scales: mx.array,
    biases: mx.array,
    bias: mx.array | None,
    *,
    norm_weight: mx.array | None,
    norm_eps: float,
    residual: mx.array | None,
    out_features: int,
    group_size: int,
    bits: int,
) -> mx.array: ...
def embedding(panels: mx.array, ids: mx.array, *, out_features: int) -> mx.array: ...
def quantized_embedding(
    words: mx.array,
    scales: mx.array,
    biases: mx.array,
    ids: mx.array,
    *,
    out_features: int,
    group_size: int,
    bits: int,
) -> mx.array: ...
def rms_norm(x: mx.array, weight: mx.array, eps: float) -> mx.array: ...
def rotary_heads(
    x: mx.array,
    cos: mx.array,
    sin: mx.array,
    *,
    num_heads: int,
    num_kv_heads: int,
    norm_weight: mx.array | None,
    norm_eps: float,
) -> list[mx.array]: ...
def silu_mul(gate_up: mx.array) -> mx.array: ...
def instruction_level() -> str: ...
def instruction_levels() -> list[str]: ...
def set_instruction_level(level: str) -> None: ...
def num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
def probe_read(block_bytes: int, num_blocks: int, passes: int, repeats: int) -> float: ...
def probe_triad(block_bytes: int, num_blocks: int, repeats: int) -> float: ...
def probe_fma(num_blocks: int, rounds: int, repeats: int) -> float: ...
