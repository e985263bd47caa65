"""The law: a row's result does not depend on its neighbours, on threads, on pages or on chunking."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metal
from tests.metal import batches
from tests.metal.batches import Shape

Layer = Callable[[mx.array], mx.array]


def identical(a: mx.array, b: mx.array) -> bool:
    """Equal in every bit: NaN equals itself and 0 differs from -0."""
    return bool(mx.array_equal(a.view(mx.uint32), b.view(mx.uint32)))


def float_layer(n: int, k: int, dtype: mx.Dtype) -> Layer:
    packed = metal.pack_linear(mx.random.normal((n, k)).astype(dtype), mx.random.normal((n,)))
    return lambda x: metal.linear(x, packed)


def quantized_layer(n: int, k: int, bits: int) -> Layer:
    words, scales, biases = mx.quantize(mx.random.normal((n, k)), group_size=32, bits=bits)
    packed = metal.pack_quantized(words, scales, biases, group_size=32, bits=bits)
    return lambda x: metal.quantized_linear(x, packed)


LAYERS = {
    "float32": lambda: float_layer(70, 608, mx.float32),
    "float16": lambda: float_layer(70, 608, mx.float16),
    "bfloat16": lambda: float_layer(70, 608, mx.bfloat16),
    "2 bits": lambda: quantized_layer(70, 608, 2),
    "4 bits": lambda: quantized_layer(70, 608, 4),
    "8 bits": lambda: quantized_layer(70, 608, 8),
}


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("kind", LAYERS)
def test_a_linear_row_is_the_same_in_a_batch_of_any_size(kind: str) -> None:
    layer = LAYERS[kind]()
    x = mx.random.normal((210, 608))
    alone = mx.concatenate([layer(x[i : i + 1]) for i in range(20)])
    for m in (2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 20, 191, 192, 193, 198, 210):
        assert identical(layer(x[:m])[:20], alone[: min(m, 20)]), f"{m} rows"


@pytest.mark.parametrize("kind", LAYERS)
def test_a_linear_row_is_the_same_at_any_place(kind: str) -> None:
    layer = LAYERS[kind]()
    x = mx.random.normal((40, 608))
    order = np.random.default_rng(5).permutation(40)
    assert identical(layer(x[mx.array(order)]), layer(x)[mx.array(order)])


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["bfloat16", "4 bits"])
def test_a_linear_row_is_the_same_on_any_number_of_threads(kind: str, threads: int) -> None:
    layer = LAYERS[kind]()
    x = mx.random.normal((50, 608))
    before, expected = metal.num_threads(), layer(x)
    mx.eval(expected)
    metal.set_num_threads(threads)
    result = layer(x)
    mx.eval(result)
    metal.set_num_threads(before)
    assert identical(result, expected)


LENGTHS = ((700, 30), (65, 1), (64, 64), (1, 1), (257, 2), (300, 45))


def attend_row(
    shape: Shape, tokens: batches.Tokens, row: int, queries: int | None = None
) -> mx.array:
    """One row of a batch on its own, with all or only its last queries."""
    context, count = shape.lengths[row]
    count = count if queries is None else queries
    alone = Shape(((context, count),), page_size=shape.page_size)
    return batches.lay_out(
        alone,
        batches.Tokens([tokens.queries[row][-count:]], [tokens.keys[row]], [tokens.values[row]]),
        seed=77,
    ).attend()


@pytest.mark.usefixtures("level")
def test_attention_of_a_row_is_the_same_without_its_neighbours() -> None:
    shape = Shape(LENGTHS)
    tokens = batches.draw(shape)
    together = batches.lay_out(shape, tokens).attend()
    alone = mx.concatenate([attend_row(shape, tokens, row) for row in range(len(LENGTHS))])
    assert identical(together, alone)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("page_size", [1, 5, 32, 256])
def test_attention_is_the_same_for_any_page_size_and_placement(page_size: int) -> None:
    shape = Shape(LENGTHS)
    tokens = batches.draw(shape)
    expected = batches.lay_out(shape, tokens).attend()
    other = Shape(LENGTHS, page_size=page_size)
    assert identical(batches.lay_out(other, tokens, seed=9).attend(), expected)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_attention_is_the_same_on_any_number_of_threads(threads: int) -> None:
    batch = batches.make(Shape(((2000, 1), (700, 1), (300, 40))))
    before, expected = metal.num_threads(), batch.attend()
    metal.set_num_threads(threads)
    result = batch.attend()
    metal.set_num_threads(before)
    assert identical(result, expected)


def chunked(shape: Shape, tokens: batches.Tokens, cuts: list[int], **options: object) -> mx.array:
    """The queries of one sequence computed chunk after chunk, as prefill and decode steps do."""
    parts = []
    for start, end in zip([0, *cuts], [*cuts, len(tokens.queries[0])], strict=True):
        step = Shape(
            ((end, end - start),),
            page_size=shape.page_size,
            q_heads=shape.q_heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
        )
        queries, keys, values = tokens.queries[0], tokens.keys[0], tokens.values[0]
        part = batches.Tokens([queries[start:end]], [keys[:end]], [values[:end]])
        parts.append(batches.lay_out(step, part, seed=start).with_options(**options).attend())
    return mx.concatenate(parts)


@pytest.mark.usefixtures("level")
def test_attention_token_by_token_is_the_same_as_all_at_once() -> None:
    shape = Shape(((90, 90),), q_heads=9, kv_heads=3, head_dim=32)
    tokens = batches.draw(shape)
    at_once = batches.lay_out(shape, tokens).attend()
    assert identical(chunked(shape, tokens, list(range(1, 90))), at_once)


OPTIONS = [
    {},
    {"window": 37},
    {"soft_cap": 3.0},
    {"sinks": mx.array([0.1, -0.5, 2.0, 0.0])},
    {"window": 64, "soft_cap": 10.0, "sinks": mx.array([0.1, -0.5, 2.0, 0.0])},
]


@given(
    cuts=st.sets(st.integers(1, 599), max_size=6).map(sorted),
    options=st.sampled_from(OPTIONS),
    page_size=st.integers(1, 70),
    kv_heads=st.sampled_from([1, 2, 4]),
)
@settings(max_examples=25)
def test_attention_is_the_same_for_any_chunking(
    cuts: list[int], options: dict[str, object], page_size: int, kv_heads: int
) -> None:
    shape = Shape(((600, 600),), page_size=page_size, kv_heads=kv_heads, head_dim=16)
    tokens = batches.draw(shape)
    at_once = batches.lay_out(shape, tokens).with_options(**options).attend()
    assert identical(chunked(shape, tokens, cuts, **options), at_once)


def test_what_later_tokens_hold_does_not_reach_an_earlier_query() -> None:
    shape = Shape(((70, 70),))
    tokens = batches.draw(shape)
    expected = batches.lay_out(shape, tokens).attend()[:40]
    tokens.values[0][40:] = np.inf
    tokens.keys[0][40:] = np.nan
    assert identical(batches.lay_out(shape, tokens).attend()[:40], expected)
