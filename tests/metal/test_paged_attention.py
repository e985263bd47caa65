"""paged_attention against its float64 twin."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metal import batches, oracles
from tests.metal.batches import Batch, Shape

RAGGED = ((1, 1), (37, 1), (64, 5), (3, 3), (129, 40), (300, 1))


def assert_close(batch: Batch, tolerance: float = 1e-5) -> None:
    """Errors of a few roundings of q's dtype, on top of float32's own."""
    result = batch.attend()
    assert result.dtype == batch.q.dtype
    allowed = tolerance + 4 * oracles.ROUNDING[batch.q.dtype]
    np.testing.assert_allclose(
        oracles.numbers(result), batch.expected(), rtol=allowed, atol=allowed
    )


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("page_dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("q_dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_every_pair_of_dtypes_matches(q_dtype: mx.Dtype, page_dtype: mx.Dtype) -> None:
    assert_close(batches.make(Shape(RAGGED, q_dtype=q_dtype, page_dtype=page_dtype)))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("head_dim", [1, 16, 20, 64, 80, 96, 128, 250, 256])
def test_every_head_size_matches(head_dim: int) -> None:
    assert_close(batches.make(Shape(((70, 1), (33, 7)), head_dim=head_dim)))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize(
    ("q_heads", "kv_heads"), [(1, 1), (4, 4), (9, 3), (8, 1), (71, 1), (14, 2)]
)
def test_every_way_of_sharing_heads_matches(q_heads: int, kv_heads: int) -> None:
    assert_close(batches.make(Shape(RAGGED[:4], q_heads=q_heads, kv_heads=kv_heads)))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("page_size", [1, 5, 8, 16, 32, 300])
def test_every_page_size_matches(page_size: int) -> None:
    assert_close(batches.make(Shape(RAGGED, page_size=page_size)))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("context", [1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 700])
def test_context_lengths_around_every_edge_match(context: int) -> None:
    queries = min(context, 18)
    assert_close(batches.make(Shape(((context, queries), (context, 1)))))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("window", [1, 2, 16, 64, 100, 10_000])
def test_a_window_hides_what_is_older(window: int) -> None:
    assert_close(batches.make(Shape(((300, 1), (140, 70), (9, 9)))).with_options(window=window))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("magnitude", [0.01, 1.0, 10.0])
def test_a_soft_cap_bends_the_scores(magnitude: float) -> None:
    shape = Shape(((300, 1), (70, 9)), magnitude=magnitude)
    assert_close(batches.make(shape).with_options(soft_cap=20.0), tolerance=1e-4)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_sinks_take_a_share_of_the_weight(dtype: mx.Dtype) -> None:
    sinks = mx.array([-3.0, 0.0, 2.0, 60.0]).astype(dtype)
    assert_close(batches.make(Shape(((300, 1), (70, 9)))).with_options(sinks=sinks))


@pytest.mark.usefixtures("level")
def test_window_cap_and_sinks_work_together() -> None:
    batch = batches.make(Shape(((600, 3), (70, 70))))
    sinks = mx.array([0.5, -1.0, 1.0, 3.0])
    assert_close(batch.with_options(window=90, soft_cap=5.0, sinks=sinks), tolerance=1e-4)


@pytest.mark.usefixtures("level")
def test_scores_of_thousands_neither_overflow_nor_vanish() -> None:
    shape = Shape(((90, 1), (65, 20)), magnitude=60.0)
    assert_close(batches.make(shape), tolerance=2e-3)


@pytest.mark.usefixtures("level")
def test_scores_far_below_zero_still_sum_to_one() -> None:
    batch = batches.make(Shape(((80, 4),), q_heads=2, kv_heads=2, page_size=8))
    ones = mx.ones_like(batch.q) * 50
    low = Batch(
        q=ones,
        key_pages=-mx.abs(batch.key_pages) - 40,
        value_pages=mx.where(mx.isnan(batch.value_pages), batch.value_pages, 3.0),
        block_table=batch.block_table,
        context_lens=batch.context_lens,
        query_start_locs=batch.query_start_locs,
    )
    np.testing.assert_allclose(np.array(low.attend()), 3.0, rtol=1e-6)


@pytest.mark.usefixtures("level")
def test_a_row_without_queries_is_passed_over() -> None:
    assert_close(batches.make(Shape(((40, 2), (30, 0), (20, 20), (0, 0)))))


@pytest.mark.usefixtures("level")
def test_rows_of_q_that_belong_to_no_row_of_the_batch_are_zero() -> None:
    batch = batches.make(Shape(((40, 2), (30, 3))))
    padded = Batch(
        q=mx.concatenate([batch.q, mx.ones((3, 4, 64))]),
        key_pages=batch.key_pages,
        value_pages=batch.value_pages,
        block_table=batch.block_table,
        context_lens=batch.context_lens,
        query_start_locs=batch.query_start_locs,
    ).attend()
    assert mx.array_equal(padded[:5], batch.attend())
    assert mx.all(padded[5:] == 0)


@pytest.mark.parametrize("bad_page", [-1, 1_000_000])
def test_a_page_id_out_of_range_counts_as_absent(bad_page: int) -> None:
    batch = batches.make(Shape(((48, 1),), page_size=16))
    table = np.array(batch.block_table)
    table[0, 1] = bad_page
    holed = Batch(
        batch.q,
        batch.key_pages,
        batch.value_pages,
        mx.array(table),
        batch.context_lens,
        batch.query_start_locs,
    )
    table[0, 1] = table[0, 2]
    joined = Batch(
        batch.q,
        batch.key_pages,
        batch.value_pages,
        mx.array(table),
        mx.array([32], dtype=mx.int32),
        batch.query_start_locs,
    )
    np.testing.assert_allclose(np.array(holed.attend()), np.array(joined.attend()), atol=1e-6)


def test_a_query_that_sees_nothing_gives_zeros() -> None:
    batch = batches.make(Shape(((16, 1),)))
    nothing = mx.full(batch.block_table.shape, -1, dtype=mx.int32)
    lost = Batch(
        batch.q,
        batch.key_pages,
        batch.value_pages,
        nothing,
        batch.context_lens,
        batch.query_start_locs,
    ).with_options(sinks=mx.zeros(4))
    assert mx.all(lost.attend() == 0)


def test_an_empty_batch_gives_an_empty_result() -> None:
    batch = batches.make(Shape(((16, 0),)))
    assert batch.attend().shape == (0, 4, 64)


def test_a_nan_among_the_seen_tokens_is_not_hidden() -> None:
    batch = batches.make(Shape(((20, 1),), page_size=32))
    page = int(batch.block_table[0, 0].item())
    batch.key_pages[page, 0, 3, 0] = float("nan")
    result = np.array(batch.attend())
    assert np.isnan(result[0, :2]).all()
    assert np.isfinite(result[0, 2:]).all()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("context", [1, 17, 300])
def test_a_row_that_sees_only_nan_gives_nan(context: int) -> None:
    batch = batches.make(Shape(((context, 1),)))
    lost = Batch(
        mx.full(batch.q.shape, float("nan")),
        batch.key_pages,
        batch.value_pages,
        batch.block_table,
        batch.context_lens,
        batch.query_start_locs,
    )
    assert mx.all(mx.isnan(lost.attend()))


def test_strided_queries_are_read_in_their_order() -> None:
    batch = batches.make(Shape(((40, 6),)))
    turned = mx.contiguous(batch.q.transpose(2, 0, 1)).transpose(1, 2, 0)
    strided = Batch(
        turned,
        batch.key_pages,
        batch.value_pages,
        batch.block_table,
        batch.context_lens,
        batch.query_start_locs,
    )
    assert mx.array_equal(strided.attend(), batch.attend())


def test_a_table_cut_from_a_wider_one_is_read_in_its_order() -> None:
    batch = batches.make(Shape(((40, 2), (70, 1))))
    wide = mx.concatenate([batch.block_table, mx.full((2, 9), 7, dtype=mx.int32)], axis=1)
    every_second = mx.stack([batch.context_lens, mx.zeros(2, dtype=mx.int32)], axis=1)[:, 0]
    cut = Batch(
        batch.q,
        batch.key_pages,
        batch.value_pages,
        wide[:, : batch.block_table.shape[1]],
        every_second,
        batch.query_start_locs,
    )
    assert mx.array_equal(cut.attend(), batch.attend())


lengths = st.integers(1, 150).flatmap(
    lambda context: st.tuples(st.just(context), st.integers(0, min(context, 45)))
)
shapes = st.builds(
    Shape,
    lengths=st.lists(lengths, min_size=1, max_size=4).map(tuple),
    q_heads=st.sampled_from([6, 12]),
    kv_heads=st.sampled_from([1, 2, 3, 6]),
    head_dim=st.sampled_from([8, 33, 64]),
    page_size=st.integers(1, 40),
    page_dtype=st.sampled_from([mx.float32, mx.float16, mx.bfloat16]),
)


@given(shape=shapes, window=st.none() | st.integers(1, 80), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_any_batch_matches(shape: Shape, window: int | None, seed: int) -> None:
    assert_close(batches.make(shape, seed).with_options(window=window))
