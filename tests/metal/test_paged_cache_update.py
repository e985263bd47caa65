"""paged_cache_update: what it writes, where, and in whose buffer."""

import mlx.core as mx
import numpy as np
import pytest

import metal
from tests.metal import oracles

DTYPES = [mx.float32, mx.float16, mx.bfloat16]


def random_case(
    page_dtype: mx.Dtype, value_dtype: mx.Dtype, head_dim: int = 20, page_size: int = 5
) -> tuple[mx.array, mx.array, mx.array]:
    """Pages of NaN, seven values and their slots in random order."""
    mx.random.seed(3)
    pages = mx.full((6, 2, page_size, head_dim), float("nan"), dtype=page_dtype)
    values = mx.random.normal((7, 2, head_dim)).astype(value_dtype)
    slots = np.random.default_rng(3).permutation(6 * page_size)[:7].astype(np.int32)
    return pages, values, mx.array(slots)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("page_dtype", DTYPES)
@pytest.mark.parametrize("value_dtype", DTYPES)
def test_every_pair_of_dtypes_rounds_as_mlx_does(
    page_dtype: mx.Dtype, value_dtype: mx.Dtype
) -> None:
    pages, values, slots = random_case(page_dtype, value_dtype)
    expected = oracles.paged_cache_update(pages, values, slots)
    written = metal.paged_cache_update(pages, values, slots)
    assert written.dtype == page_dtype
    np.testing.assert_array_equal(oracles.numbers(written), expected)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("page_size", [1, 5, 8, 16, 32])
@pytest.mark.parametrize("head_dim", [1, 64, 80, 96, 128, 256])
def test_only_the_named_slots_are_written(page_size: int, head_dim: int) -> None:
    pages, values, slots = random_case(mx.float16, mx.float32, head_dim, page_size + 2)
    expected = oracles.paged_cache_update(pages, values, slots)
    np.testing.assert_array_equal(
        oracles.numbers(metal.paged_cache_update(pages, values, slots)), expected
    )


SPECIAL = [
    0.0, -0.0, 1.0, 65504.0, 65519.9, 65520.0, -70000.0, 6.1e-5, 6.0e-8, 2.9e-8, 1e-30,
    float("inf"), float("-inf"), 1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, 1.0 + 2.0**-8, 3.3895e38,
]  # fmt: skip


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_numbers_at_the_edge_of_a_dtype_round_to_nearest_even(dtype: mx.Dtype) -> None:
    values = mx.array(SPECIAL).reshape(1, 1, -1)
    pages = mx.zeros((1, 1, 1, len(SPECIAL)), dtype=dtype)
    written = metal.paged_cache_update(pages, values, mx.array([0], dtype=mx.int32))
    expected = values.astype(dtype).reshape(written.shape)
    assert mx.array_equal(written.view(mx.uint16), expected.view(mx.uint16))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_a_nan_stays_one(dtype: mx.Dtype) -> None:
    pages = mx.zeros((1, 1, 1, 9), dtype=dtype)
    values = mx.full((1, 1, 9), float("nan"))
    written = metal.paged_cache_update(pages, values, mx.array([0], dtype=mx.int32))
    assert mx.all(mx.isnan(written))


@pytest.mark.usefixtures("level")
def test_every_half_survives_the_way_to_float_and_back() -> None:
    bits = mx.array(np.arange(65536, dtype=np.uint16)).reshape(1, 1, -1)
    finite = mx.where(mx.isnan(bits.view(mx.float16)), 0, bits).astype(mx.uint16)
    slot = mx.array([0], dtype=mx.int32)
    pages = mx.zeros((1, 1, 1, 65536), dtype=mx.float32)
    floats = metal.paged_cache_update(pages, finite.view(mx.float16), slot).reshape(1, 1, -1)
    assert mx.array_equal(floats, finite.view(mx.float16).astype(mx.float32))
    pages = mx.zeros((1, 1, 1, 65536), dtype=mx.float16)
    back = metal.paged_cache_update(pages, floats, slot)
    assert mx.array_equal(back.view(mx.uint16).reshape(-1), finite.reshape(-1))


@pytest.mark.parametrize("slot", [-1, -7, 30, 2**31 - 1])
def test_a_row_with_a_slot_outside_the_pages_is_not_written(slot: int) -> None:
    pages = mx.zeros((6, 2, 5, 20))
    slots = mx.array([4, slot], dtype=mx.int32)
    written = metal.paged_cache_update(pages, mx.ones((2, 2, 20)), slots)
    assert written.sum().item() == 2 * 20
    assert mx.all(written[0, :, 4] == 1)


def test_the_result_is_the_buffer_of_the_pages() -> None:
    pages, values, slots = random_case(mx.float32, mx.float32)
    mx.eval(pages)
    written = metal.paged_cache_update(pages, values, slots)
    mx.eval(written)
    old = np.array(pages, copy=False)
    new = np.array(written, copy=False)
    assert old.ctypes.data == new.ctypes.data


def test_memory_does_not_grow_with_the_pages() -> None:
    pages = mx.zeros((1000, 2, 16, 64))
    values, slots = mx.ones((1, 2, 64)), mx.array([5], dtype=mx.int32)
    mx.eval(pages, values, slots)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    pages = metal.paged_cache_update(pages, values, slots)
    mx.eval(pages)
    assert mx.get_peak_memory() - before < pages.nbytes // 100


def test_a_reader_of_the_result_sees_the_new_numbers() -> None:
    pages = mx.zeros((4, 1, 4, 8))
    for step in range(16):
        slot = mx.array([step], dtype=mx.int32)
        pages = metal.paged_cache_update(pages, mx.full((1, 1, 8), step + 1.0), slot)
    total = pages.sum()
    assert total.item() == 8 * sum(range(1, 17))


def test_two_equal_writes_are_both_done() -> None:
    pages = mx.zeros((1, 1, 2, 4))
    values, slot = mx.ones((1, 1, 4)), mx.array([1], dtype=mx.int32)

    def write_twice(p: mx.array) -> mx.array:
        once = metal.paged_cache_update(p, values, slot)
        cleared = metal.paged_cache_update(once, mx.zeros((1, 1, 4)), slot)
        return metal.paged_cache_update(cleared, values, slot)

    assert mx.all(write_twice(pages)[0, 0, 1] == 1)


def test_no_rows_write_nothing() -> None:
    pages = mx.ones((2, 2, 4, 8))
    nothing = metal.paged_cache_update(pages, mx.zeros((0, 2, 8)), mx.zeros((0,), dtype=mx.int32))
    assert mx.all(nothing == 1)


def test_strided_values_are_read_in_their_order() -> None:
    pages = mx.zeros((2, 2, 4, 8))
    values = mx.random.normal((2, 3, 8)).transpose(1, 0, 2)
    written = metal.paged_cache_update(pages, values, mx.array([0, 1, 2], dtype=mx.int32))
    assert mx.array_equal(written[0, :, :3].transpose(1, 0, 2), values)


def test_pages_that_turn_out_strided_are_refused_when_evaluated() -> None:
    turned = mx.zeros((2, 4, 2, 8)).transpose(0, 2, 1, 3)
    written = metal.paged_cache_update(turned, mx.ones((1, 2, 8)), mx.array([0], dtype=mx.int32))
    with pytest.raises(ValueError, match=r"\[paged_cache_update\] expected pages row-contiguous"):
        mx.eval(written)
