"""Times the CPU kernels beside MLX's own operations, in one run: python tests/benchmarks/kernels.py

Medians of repeated calls on an otherwise idle machine; a ratio above 1 means that ours is faster.
Not collected by pytest: how long something takes proves nothing on a shared machine.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

import metal

HIDDEN, INTERMEDIATE, VOCABULARY = 576, 1536, 49152
Q_HEADS, KV_HEADS, HEAD_DIM, PAGE_SIZE = 9, 3, 64, 16
MAX_CALLS = 40  # in one graph: their results are all in memory at once
Step = Callable[[], mx.array]


@dataclass(frozen=True)
class Case:
    """One operation, ours and MLX's, and its work in floating point operations."""

    name: str
    operations: float
    ours: Step
    theirs: Step


def seconds(step: Step, calls: int) -> float:
    """Median time of one call, out of 15 rounds of `calls` independent ones."""
    mx.eval(step())
    rounds = []
    for _ in range(15):
        start = time.perf_counter()
        mx.eval([step() for _ in range(calls)])
        rounds.append((time.perf_counter() - start) / calls)
    return statistics.median(rounds)


def report(case: Case) -> None:
    calls = min(MAX_CALLS, max(1, int(2e7 / case.operations)))
    ours, theirs = seconds(case.ours, calls), seconds(case.theirs, max(1, calls // 8))
    print(
        f"{case.name:44} {ours * 1e6:10.1f} us {case.operations / ours / 1e9:7.1f} GFLOP/s"
        f"   MLX {theirs * 1e6:11.1f} us   ratio {theirs / ours:6.1f}"
    )


def quantized_case(rows: int, n: int, k: int, bits: int) -> Case:
    words, scales, biases = mx.quantize(mx.random.normal((n, k)), group_size=32, bits=bits)
    packed = metal.pack_quantized(words, scales, biases, group_size=32, bits=bits)
    x = mx.random.normal((rows, k))
    mx.eval(x, packed.words, packed.scales, packed.biases)
    return Case(
        f"quantized_linear {bits} bits, {rows:3} x {k} x {n}",
        2.0 * rows * n * k,
        lambda: metal.quantized_linear(x, packed),
        lambda: mx.quantized_matmul(x, words, scales, biases, group_size=32, bits=bits),
    )


def linear_case(rows: int, n: int, k: int, dtype: mx.Dtype) -> Case:
    weight = mx.random.normal((n, k)).astype(dtype)
    packed = metal.pack_linear(weight)
    x = mx.random.normal((rows, k))
    floats = weight.astype(mx.float32)
    mx.eval(x, packed.panels, floats)
    return Case(
        f"linear {str(dtype).rpartition('.')[2]}, {rows:3} x {k} x {n}",
        2.0 * rows * n * k,
        lambda: metal.linear(x, packed),
        lambda: x @ floats.T,
    )


def attention_case(rows: int, context: int, queries: int, dtype: mx.Dtype) -> Case:
    """`rows` sequences of one length; MLX gets the keys and values already gathered."""
    pages_per_row = -(-context // PAGE_SIZE)
    shape = (rows * pages_per_row, KV_HEADS, PAGE_SIZE, HEAD_DIM)
    keys, values = (mx.random.normal(shape).astype(dtype) for _ in range(2))
    q = mx.random.normal((rows * queries, Q_HEADS, HEAD_DIM))
    table = mx.random.permutation(shape[0]).astype(mx.int32).reshape(rows, pages_per_row)
    lens = mx.full((rows,), context, dtype=mx.int32)
    starts = mx.arange(0, rows * queries + 1, queries, dtype=mx.int32)
    dense_q = q.reshape(rows, queries, Q_HEADS, HEAD_DIM).transpose(0, 2, 1, 3)
    dense_k, dense_v = (
        mx.contiguous(
            pages[table].transpose(0, 2, 1, 3, 4).reshape(rows, KV_HEADS, -1, HEAD_DIM)
        ).astype(mx.float32)
        for pages in (keys, values)
    )
    mx.eval(q, keys, values, table, lens, starts, dense_q, dense_k, dense_v)
    pairs = rows * Q_HEADS * sum(range(context - queries + 1, context + 1))
    return Case(
        f"paged_attention {str(dtype).rpartition('.')[2]}, {rows} rows of {queries} at {context}",
        4.0 * pairs * HEAD_DIM,
        lambda: metal.paged_attention(q, keys, values, table, lens, starts, scale=0.125),
        lambda: mx.fast.scaled_dot_product_attention(
            dense_q, dense_k[:, :, :context], dense_v[:, :, :context], scale=0.125, mask="causal"
        ),
    )


def row_cases(rows: int) -> list[Case]:
    x, weight = mx.random.normal((rows, HIDDEN)), mx.random.normal((HIDDEN,))
    gate_up = mx.random.normal((rows, 2 * INTERMEDIATE))
    heads = mx.random.normal((rows, Q_HEADS + KV_HEADS, HEAD_DIM))
    angles = mx.random.uniform(0, 6, (rows, HEAD_DIM // 2))
    cos, sin = mx.cos(angles), mx.sin(angles)
    mx.eval(x, weight, gate_up, heads, cos, sin)

    def mlx_rotary() -> mx.array:
        first, second = mx.split(heads, 2, axis=-1)
        c, s = cos[:, None], sin[:, None]
        return mx.concatenate([first * c - second * s, second * c + first * s], axis=-1)

    def mlx_silu_mul() -> mx.array:
        gate, up = mx.split(gate_up, 2, axis=-1)
        return gate * mx.sigmoid(gate) * up

    return [
        Case(
            f"rms_norm, {rows} x {HIDDEN}",
            4.0 * x.size,
            lambda: metal.rms_norm(x, weight, 1e-5),
            lambda: mx.fast.rms_norm(x, weight, 1e-5),
        ),
        Case(
            f"rotary, {rows} x {Q_HEADS + KV_HEADS} x {HEAD_DIM}",
            3.0 * heads.size,
            lambda: metal.rotary(heads, cos, sin),
            mlx_rotary,
        ),
        Case(
            f"silu_mul, {rows} x {INTERMEDIATE}",
            10.0 * gate_up.size,
            lambda: metal.silu_mul(gate_up),
            mlx_silu_mul,
        ),
    ]


def update_case(rows: int) -> Case:
    pages = mx.zeros((200, KV_HEADS, PAGE_SIZE, HEAD_DIM))
    values = mx.random.normal((rows, KV_HEADS, HEAD_DIM))
    slots = mx.random.permutation(3200)[:rows].astype(mx.int32)
    page_ids, offsets = slots // PAGE_SIZE, slots % PAGE_SIZE
    mx.eval(pages, values, slots, page_ids, offsets)

    def mlx_update() -> mx.array:
        updated = pages + 0
        updated[page_ids, :, offsets] = values
        return updated

    return Case(
        f"paged_cache_update, {rows} rows into 3200 slots",
        1.0 * values.size,
        lambda: metal.paged_cache_update(pages, values, slots),
        mlx_update,
    )


def main() -> None:
    mx.set_default_device(mx.cpu)
    print(f"instruction level {metal.instruction_level()}, {metal.num_threads()} threads")
    for rows in (1, 2, 4, 8, 16, 64, 256):
        report(quantized_case(rows, INTERMEDIATE, HIDDEN, 4))
    for rows in (1, 64):
        report(quantized_case(rows, HIDDEN, INTERMEDIATE, 4))
        report(quantized_case(rows, INTERMEDIATE, HIDDEN, 8))
        report(linear_case(rows, INTERMEDIATE, HIDDEN, mx.float32))
        report(linear_case(rows, INTERMEDIATE, HIDDEN, mx.bfloat16))
    report(quantized_case(1, VOCABULARY, HIDDEN, 4))
    for dtype in (mx.float32, mx.float16):
        report(attention_case(1, 1000, 1, dtype))
        report(attention_case(16, 300, 1, dtype))
        report(attention_case(1, 512, 512, dtype))
        report(attention_case(1, 2048, 256, dtype))
    for rows in (1, 64):
        for case in row_cases(rows):
            report(case)
        report(update_case(rows))


if __name__ == "__main__":
    main()
