"""Slow, obvious twins of the kernels in float64 NumPy. They are kept for ever."""

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Half a unit in the last place of each storage type, as a relative error.
ROUNDING = {mx.float32: 2.0**-24, mx.float16: 2.0**-11, mx.bfloat16: 2.0**-8}


def numbers(a: mx.array) -> Floats:
    """An array of any float dtype as float64."""
    return np.array(a.astype(mx.float32), dtype=np.float64)


def integers(a: mx.array) -> NDArray[np.int64]:
    return np.array(a, dtype=np.int64)


def paged_cache_update(pages: mx.array, values: mx.array, slot_mapping: mx.array) -> Floats:
    """[P, H_kv, page_size, D] with row t of values at slot slot_mapping[t]."""
    result = numbers(pages)
    rows = numbers(values.astype(pages.dtype))
    for row, slot in zip(rows, integers(slot_mapping), strict=True):
        if slot >= 0:
            page, offset = divmod(int(slot), pages.shape[2])
            result[page, :, offset, :] = row
    return result


def attend(  # noqa: PLR0913
    query: Floats,
    keys: Floats,
    values: Floats,
    *,
    scale: float,
    soft_cap: float | None = None,
    sink: float | None = None,
) -> Floats:
    """One query [D] over the keys and values [n, D] that it sees."""
    if len(keys) == 0:
        return np.zeros_like(query)
    scores = keys @ query * scale
    if soft_cap is not None:
        scores = soft_cap * np.tanh(scores / soft_cap)
    top = scores.max() if sink is None else max(scores.max(), sink)
    weights = np.exp(scores - top)
    total = weights.sum() + (0.0 if sink is None else np.exp(sink - top))
    result: Floats = weights @ values / total
    return result


def paged_attention(  # noqa: PLR0913, PLR0917
    q: mx.array,
    key_pages: mx.array,
    value_pages: mx.array,
    block_table: mx.array,
    context_lens: mx.array,
    query_start_locs: mx.array,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: mx.array | None = None,
) -> Floats:
    """[T, H_q, D]: token by token and head by head, from gathered keys and values."""
    queries, keys, values = numbers(q), numbers(key_pages), numbers(value_pages)
    page_size, group = keys.shape[2], q.shape[1] // keys.shape[1]
    table, lens, starts = integers(block_table), integers(context_lens), integers(query_start_locs)
    result = np.zeros_like(queries)
    for row, context_len in enumerate(lens):
        for token in range(starts[row], starts[row + 1]):
            position = context_len - starts[row + 1] + token
            first = 0 if window is None else max(0, position - window + 1)
            seen = np.arange(first, position + 1)
            pages, offsets = table[row, seen // page_size], seen % page_size
            for head in range(q.shape[1]):
                result[token, head] = attend(
                    queries[token, head],
                    keys[pages, head // group, offsets],
                    values[pages, head // group, offsets],
                    scale=scale,
                    soft_cap=soft_cap,
                    sink=None if sinks is None else float(sinks[head].item()),
                )
    return result


def dequantize(
    words: mx.array, scales: mx.array, biases: mx.array, *, group_size: int, bits: int
) -> NDArray[np.float32]:
    """[N, K] float32 from MLX's affine format: the lowest bits of a word come first."""
    packed = np.array(words)
    fields = [(packed >> (bits * i)) & (2**bits - 1) for i in range(32 // bits)]
    q = np.stack(fields, axis=-1).reshape(packed.shape[0], -1).astype(np.float64)
    scale = np.repeat(numbers(scales), group_size, axis=1)
    bias = np.repeat(numbers(biases), group_size, axis=1)
    return (q * scale + bias).astype(np.float32)


def linear(x: mx.array, weight: Floats, bias: mx.array | None = None) -> Floats:
    """[..., K] times [N, K] transposed, plus [N]."""
    result: Floats = numbers(x) @ weight.T
    return result if bias is None else result + numbers(bias)


def rms_norm(x: mx.array, weight: mx.array, eps: float) -> Floats:
    rows = numbers(x)
    scale = 1.0 / np.sqrt(np.mean(rows * rows, axis=-1, keepdims=True) + eps)
    result: Floats = rows * scale * numbers(weight)
    return result


def rotary(x: mx.array, cos: mx.array, sin: mx.array) -> Floats:
    """[T, H, D]: number i turns together with number i + D / 2."""
    first, second = np.split(numbers(x), 2, axis=-1)
    c, s = numbers(cos)[:, None, :], numbers(sin)[:, None, :]
    return np.concatenate([first * c - second * s, second * c + first * s], axis=-1)


def silu_mul(gate_up: mx.array) -> Floats:
    gate, up = np.split(numbers(gate_up), 2, axis=-1)
    result: Floats = gate / (1.0 + np.exp(-gate)) * up
    return result
