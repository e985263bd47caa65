"""The work of `cpu_benchmark`: each CPU kernel beside MLX's own operation, and what both must do at least.

The sizes are those of SmolLM2 135M. Where the weights come from memory, as in a model larger than
the caches, every call has a copy of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx

from metal.kernel_cost import (
    Cost,
    HeadSizes,
    attention_cost,
    cache_update_cost,
    linear_cost,
    row_cost,
)
from metal.ops import (
    embedding,
    linear,
    paged_attention,
    paged_cache_update,
    quantized_linear,
    rms_norm,
    rotary_heads,
    silu_mul,
)
from metal.packing import PackedQuantized, pack_linear, pack_quantized

HIDDEN, INTERMEDIATE, VOCABULARY = 576, 1536, 49152
EMBEDDINGS = 8192  # of the vocabulary: packing all of them takes seconds, and a row is a row
HEADS = HeadSizes(num_q_heads=9, num_kv_heads=3, head_dim=64, itemsize=4)
PAGE_SIZE = 16
GROUP_SIZE = 32
ROWS = (1, 8, 64, 512)

Call = Callable[[int], mx.array | Sequence[mx.array]]


@dataclass(frozen=True, slots=True)
class Case:
    """`ours` and `theirs` build the operation for the i-th call of a round.

    `copies` calls in a row read different weights; the one after them the first again.
    """

    name: str
    cost: Cost
    ours: Call
    theirs: Call
    copies: int = 1

    @property
    def working_set(self) -> int:
        """Bytes that a round touches, which decides how near to the cores they lie."""
        return self.copies * self.cost.bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """A case before its arrays are made, so that the chosen ones alone need memory."""

    name: str
    make: Callable[[], Case]


def plans() -> Iterator[Plan]:
    for rows in ROWS:
        yield _quantized(rows, 2 * INTERMEDIATE, HIDDEN)
    yield _quantized(1, HIDDEN, INTERMEDIATE)
    yield _quantized(1, 2 * INTERMEDIATE, HIDDEN, copies=64)
    yield _quantized(8, 2 * INTERMEDIATE, HIDDEN, copies=64)
    yield _quantized(1, VOCABULARY, HIDDEN)
    for dtype in (mx.float32, mx.bfloat16):
        for rows in (1, 64):
            yield _linear(rows, 2 * INTERMEDIATE, HIDDEN, dtype)
    yield _attention("decode", sequences=1, queries=1, context=1000)
    yield _attention("decode", sequences=16, queries=1, context=300)
    yield _attention("prefill", sequences=1, queries=512, context=512)
    yield _attention("prefill", sequences=1, queries=256, context=2048)
    for rows in (1, 512):
        yield _cache_update(rows)
        yield _rms_norm(rows)
        yield _rotary_heads(rows)
        yield _silu_mul(rows)
        yield _embedding(rows)


def _quantized(rows: int, n: int, k: int, copies: int = 1) -> Plan:
    """Half precision scales, as in a GGUF file; MLX gets them in float32, where it is far faster."""
    place = ", weights from memory" if copies > 1 else ""
    name = f"quantized_linear 4 bits, {rows} x {k} x {n}{place}"

    def make() -> Case:
        words, scales, biases = mx.quantize(_normal(n, k), group_size=GROUP_SIZE, bits=4)
        halves = scales.astype(mx.float16), biases.astype(mx.float16)
        packed = pack_quantized(words, *halves, group_size=GROUP_SIZE, bits=4)
        weights = [_copied(packed) for _ in range(copies)]
        theirs = [tuple(array + 0 for array in (words, scales, biases)) for _ in range(copies)]
        x = _normal(rows, k)
        mx.eval(x, theirs)
        return Case(
            name,
            linear_cost(rows, n, k, packed.nbytes),
            lambda i: quantized_linear(x, weights[i % copies]),
            lambda i: _matmul(x, *theirs[i % copies]),
            copies,
        )

    return Plan(name, make)


def _matmul(x: mx.array, words: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    return mx.quantized_matmul(x, words, scales, biases, group_size=GROUP_SIZE, bits=4)


def _copied(weight: PackedQuantized) -> PackedQuantized:
    words, scales, biases = (array + 0 for array in (weight.words, weight.scales, weight.biases))
    mx.eval(words, scales, biases)
    return replace(weight, words=words, scales=scales, biases=biases)


def _linear(rows: int, n: int, k: int, dtype: mx.Dtype) -> Plan:
    name = f"linear {_dtype_name(dtype)}, {rows} x {k} x {n}"

    def make() -> Case:
        weight = _normal(n, k).astype(dtype)
        packed = pack_linear(weight)
        x, floats = _normal(rows, k), weight.astype(mx.float32)
        mx.eval(x, packed.panels, floats)
        cost = linear_cost(rows, n, k, packed.nbytes)
        return Case(name, cost, lambda _: linear(x, packed), lambda _: x @ floats.T)

    return Plan(name, make)


def _attention(kind: str, sequences: int, queries: int, context: int) -> Plan:
    """MLX gets keys and values that are gathered already."""
    name = f"paged_attention {kind}, {sequences} x {queries} at {context}"

    def make() -> Case:
        pages_each = -(-context // PAGE_SIZE)
        shape = (sequences * pages_each, HEADS.num_kv_heads, PAGE_SIZE, HEADS.head_dim)
        keys, values = _normal(*shape), _normal(*shape)
        q = _normal(sequences * queries, HEADS.num_q_heads, HEADS.head_dim)
        table = mx.random.permutation(shape[0]).astype(mx.int32).reshape(sequences, pages_each)
        lens = mx.full((sequences,), context, dtype=mx.int32)
        starts = mx.arange(0, sequences * queries + 1, queries, dtype=mx.int32)
        dense_q = mx.contiguous(q.reshape(sequences, queries, *q.shape[1:]).transpose(0, 2, 1, 3))
        dense = [_gathered(pages, table, context) for pages in (keys, values)]
        scale = HEADS.head_dim**-0.5
        mx.eval(q, keys, values, table, lens, starts, dense_q, dense)
        return Case(
            name,
            attention_cost(HEADS, sequences, queries, context),
            lambda _: paged_attention(q, keys, values, table, lens, starts, scale=scale),
            lambda _: mx.fast.scaled_dot_product_attention(
                dense_q, *dense, scale=scale, mask="causal"
            ),
        )

    return Plan(name, make)


def _gathered(pages: mx.array, table: mx.array, context: int) -> mx.array:
    """[P, H, page_size, D] and int32 [B, n] -> [B, H, context, D]."""
    rows = pages[table].transpose(0, 2, 1, 3, 4)
    return mx.contiguous(
        rows.reshape(len(table), HEADS.num_kv_heads, -1, HEADS.head_dim)[:, :, :context]
    )


def _cache_update(rows: int) -> Plan:
    """K and V of one layer. MLX's own update copies the pages."""
    name = f"paged_cache_update, {rows} rows of K and V"

    def make() -> Case:
        shape = (200, HEADS.num_kv_heads, PAGE_SIZE, HEADS.head_dim)
        keys, values = mx.zeros(shape), mx.zeros(shape)
        new = _normal(rows, HEADS.num_kv_heads, HEADS.head_dim)
        slots = mx.random.permutation(200 * PAGE_SIZE)[:rows].astype(mx.int32)
        page_ids, offsets = slots // PAGE_SIZE, slots % PAGE_SIZE
        mx.eval(keys, values, new, slots, page_ids, offsets)

        def theirs(_: int) -> list[mx.array]:
            updated = [keys + 0, values + 0]
            for pages in updated:
                pages[page_ids, :, offsets] = new
            return updated

        return Case(
            name,
            cache_update_cost(HEADS, rows),
            lambda _: [paged_cache_update(pages, new, slots) for pages in (keys, values)],
            theirs,
        )

    return Plan(name, make)


def _rms_norm(rows: int) -> Plan:
    name = f"rms_norm, {rows} x {HIDDEN}"

    def make() -> Case:
        x, weight = _normal(rows, HIDDEN), _normal(HIDDEN)
        mx.eval(x, weight)
        return Case(
            name,
            row_cost(x.size, flops_each=4),
            lambda _: rms_norm(x, weight, 1e-5),
            lambda _: mx.fast.rms_norm(x, weight, 1e-5),
        )

    return Plan(name, make)


def _rotary_heads(rows: int) -> Plan:
    rotated = HEADS.num_q_heads + HEADS.num_kv_heads
    width = (rotated + HEADS.num_kv_heads) * HEADS.head_dim
    name = f"rotary_heads, {rows} x {rotated} x {HEADS.head_dim}"

    def make() -> Case:
        x = _normal(rows, width)
        qk = x[:, : rotated * HEADS.head_dim].reshape(rows, rotated, HEADS.head_dim)
        angles = mx.random.uniform(0, 6, (rows, HEADS.head_dim // 2))
        cos, sin = mx.cos(angles), mx.sin(angles)
        v = x[:, rotated * HEADS.head_dim :].reshape(rows, HEADS.num_kv_heads, HEADS.head_dim)
        mx.eval(x, qk, v, cos, sin)

        def ours(_: int) -> tuple[mx.array, mx.array, mx.array]:
            heads, kv_heads = HEADS.num_q_heads, HEADS.num_kv_heads
            return rotary_heads(x, cos, sin, num_heads=heads, num_kv_heads=kv_heads)

        def theirs(_: int) -> tuple[mx.array, mx.array, mx.array]:
            first, second = mx.split(qk, 2, axis=-1)
            c, s = cos[:, None], sin[:, None]
            turned = mx.concatenate([first * c - second * s, second * c + first * s], axis=-1)
            q, k = mx.split(turned, [HEADS.num_q_heads], axis=1)
            return q, k, v

        return Case(name, row_cost(qk.size, flops_each=3), ours, theirs)

    return Plan(name, make)


def _silu_mul(rows: int) -> Plan:
    name = f"silu_mul, {rows} x {INTERMEDIATE}"

    def make() -> Case:
        gate_up = _normal(rows, 2 * INTERMEDIATE)
        mx.eval(gate_up)

        def theirs(_: int) -> mx.array:
            gate, up = mx.split(gate_up, 2, axis=-1)
            return gate * mx.sigmoid(gate) * up

        # Two numbers in, one out; about twenty operations for the exponential and the quotient.
        cost = Cost(bytes=6 * gate_up.size, flops=10 * gate_up.size)
        return Case(name, cost, lambda _: silu_mul(gate_up), theirs)

    return Plan(name, make)


def _embedding(rows: int) -> Plan:
    name = f"embedding 4 bits, {rows} x {HIDDEN}"

    def make() -> Case:
        parts = mx.quantize(_normal(EMBEDDINGS, HIDDEN), group_size=GROUP_SIZE, bits=4)
        packed = pack_quantized(*parts, group_size=GROUP_SIZE, bits=4)
        ids = mx.random.randint(0, EMBEDDINGS, (rows,)).astype(mx.int32)
        mx.eval(parts, packed.words, packed.scales, packed.biases, ids)

        def theirs(_: int) -> mx.array:
            codes, scales, biases = (part[ids] for part in parts)
            return mx.dequantize(codes, scales, biases, group_size=GROUP_SIZE, bits=4)

        read = packed.nbytes * rows // EMBEDDINGS
        cost = Cost(bytes=read + 4 * rows * (1 + HIDDEN), flops=2 * rows * HIDDEN)
        return Case(name, cost, lambda _: embedding(packed, ids), theirs)

    return Plan(name, make)


def _normal(*shape: int) -> mx.array:
    return mx.random.normal(shape)


def _dtype_name(dtype: mx.Dtype) -> str:
    return str(dtype).rpartition(".")[2]
