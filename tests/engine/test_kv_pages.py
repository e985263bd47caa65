"""Pages hold what was written, where it was written, through copies and growth."""

import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

from engine.kv_pages import KVPages
from engine.kv_storage import KVShape, KVStorage
from engine.page_pool import PagePool
from engine.page_table import PageCopy, PageTable
from tests.support.memory import WHERE_PAGES_ARE_RESERVED

HEADS, PAGE_SIZE, DIM = 2, 4, 64


def pages(capacity: int = 8) -> KVPages:
    layer = KVPages(HEADS, PAGE_SIZE, DIM, mx.float32)
    layer.grow(capacity)
    return layer


def rows(count: int, seed: int) -> tuple[mx.array, mx.array]:
    rng = np.random.default_rng(seed)
    keys, values = rng.standard_normal((2, count, HEADS, DIM), dtype=np.float32)
    return mx.array(keys), mx.array(values)


def slots(*values: int) -> mx.array:
    return mx.array(values, mx.int32)


def gathered(layer: KVPages, page_ids: list[int], length: int) -> list[np.ndarray]:
    return [np.array(array) for array in layer.gather(page_ids, length)]


def test_scattered_pages_gather_as_one_text() -> None:
    layer = pages()
    table = PageTable(PagePool(8, PAGE_SIZE))
    keys, values = rows(10, 0)
    start = 0
    for count in (3, 1, 5, 1):  # chunks that end inside and at the edge of pages
        table.append(count)
        stop = start + count
        layer.write(keys[start:stop], values[start:stop], slots(*table.slots(start, stop)))
        start = stop
    found = gathered(layer, list(table.page_ids), 10)
    assert np.array_equal(found[0], np.array(keys))
    assert np.array_equal(found[1], np.array(values))


def test_a_write_touches_only_its_slots() -> None:
    layer = pages()
    keys, values = rows(8, 1)
    layer.write(keys, values, slots(*range(8)))
    more = rows(1, 2)
    layer.write(*more, slots(5))
    found, _ = gathered(layer, [0, 1], 8)
    assert np.array_equal(found[5], np.array(more[0][0]))
    assert np.array_equal(np.delete(found, 5, 0), np.delete(np.array(keys), 5, 0))


def test_a_copied_page_equals_its_source_and_leaves_the_rest() -> None:
    layer = pages()
    keys, values = rows(32, 3)
    layer.write(keys, values, slots(*range(32)))
    layer.copy_pages([PageCopy(source=1, target=6), PageCopy(source=3, target=0)])
    wanted = np.array(keys).reshape(8, PAGE_SIZE, HEADS, DIM)
    wanted[6], wanted[0] = wanted[1], wanted[3]
    found, _ = gathered(layer, list(range(8)), 32)
    assert np.array_equal(found, wanted.reshape(32, HEADS, DIM))


def test_a_copy_is_of_the_time_before_the_steps_writes() -> None:
    layer = pages()
    old, new = rows(4, 4), rows(4, 5)
    layer.write(*old, slots(0, 1, 2, 3))
    layer.copy_pages([PageCopy(source=0, target=2)])
    layer.write(*new, slots(0, 1, 2, 3))
    assert np.array_equal(gathered(layer, [2], 4)[0], np.array(old[0]))
    assert np.array_equal(gathered(layer, [0], 4)[0], np.array(new[0]))


def test_growth_keeps_what_was_written() -> None:
    layer = pages(2)
    keys, values = rows(8, 6)
    layer.write(keys, values, slots(*range(8)))
    layer.grow(7)
    assert layer.capacity == 7
    found = gathered(layer, [0, 1], 8)
    assert np.array_equal(found[0], np.array(keys))
    assert np.array_equal(found[1], np.array(values))


def test_growth_holds_one_array_twice_at_most() -> None:
    layer = pages(256)
    mx.eval(layer.key_pages, layer.value_pages)
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    layer.grow(512)
    one_array = layer.key_pages.nbytes
    # K is twice as large by then, and V exists in its old and its new size
    assert mx.get_peak_memory() - before <= one_array // 2 + one_array + 4096


def test_restoring_forgets_the_arrays_bound_since() -> None:
    layer = pages()
    keys, values = rows(4, 7)
    layer.write(keys, values, slots(0, 1, 2, 3))
    mx.eval(layer.key_pages, layer.value_pages)
    saved = layer.snapshot()
    layer.write(keys, values + mx.array([1.0]), slots(4, 5, 6, 7))
    layer.restore(saved)
    assert layer.key_pages is saved[0]
    assert np.array_equal(gathered(layer, [0], 4)[1], np.array(values))


def storage(num_pages: int) -> KVStorage:
    return KVStorage(KVShape(3, HEADS, DIM, PAGE_SIZE, mx.float32), num_pages)


def test_memory_comes_with_the_first_need_and_stops_at_the_budget() -> None:
    kept = storage(num_pages=50)
    assert kept.capacity == 0
    seen = []
    for needed in range(1, 51):
        kept.ensure(needed)
        seen.append(kept.capacity)
        assert {layer.capacity for layer in kept.layers} == {kept.capacity}
    assert sorted(set(seen)) == [16, 32, 50]
    assert kept.num_growths == 3
    assert kept.copied.growth == (16 + 32) * kept.shape.bytes_per_page


def test_a_need_that_is_met_copies_nothing() -> None:
    kept = storage(num_pages=50)
    kept.ensure(10)
    arrays = kept.arrays()
    kept.ensure(16)
    assert all(a is b for a, b in zip(arrays, kept.arrays(), strict=True))
    assert kept.num_growths == 1


HALF_WAY = """
import resource
import mlx.core as mx
from engine.kv_storage import KVShape, KVStorage

shape = KVShape(num_layers=3, num_kv_heads=1, head_dim=1024, page_size=256, dtype=mx.float32)
storage = KVStorage(shape, num_pages=256)
storage.ensure(1)
for layer in storage.layers:
    layer.write(mx.ones((1, 1, 1024)), mx.ones((1, 1, 1024)), mx.array([5], mx.int32))
mx.eval(storage.arrays())
with open("/proc/self/statm") as statm:
    in_use = resource.getpagesize() * int(statm.read().split()[0])
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (in_use + (7 << 27), most))  # 3.5 arrays of 256 MiB
try:
    storage.ensure(256)
except MemoryError:
    print(storage.capacity, [array.shape[0] for array in storage.arrays()])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
storage.ensure(256)
print(storage.capacity, [array.shape[0] for array in storage.arrays()])
print([mx.all(array[0, 0, 5] == 1).item() for array in storage.arrays()])
"""


@WHERE_PAGES_ARE_RESERVED
def test_a_growth_that_ran_out_of_memory_half_way_goes_on_later() -> None:
    """In a process of its own, whose address space is short for a while."""
    ended = subprocess.run(
        [sys.executable, "-c", HALF_WAY], capture_output=True, text=True, check=False
    )
    assert ended.stdout.splitlines() == [
        "16 [256, 256, 256, 16, 16, 16]",
        "256 [256, 256, 256, 256, 256, 256]",
        "[True, True, True, True, True, True]",
    ], ended.stderr


def test_reserved_storage_never_copies_and_counts_the_pages_that_it_was_asked_for() -> None:
    kept = KVStorage(KVShape(3, HEADS, DIM, PAGE_SIZE, mx.float32), 50, reserved=True)
    assert kept.capacity == 0
    arrays = kept.arrays()
    seen = []
    for needed in (1, 7, 3, 50, 20):
        kept.ensure(needed)
        seen.append(kept.capacity)
    assert seen == [1, 7, 7, 50, 50]
    assert all(a is b for a, b in zip(arrays, kept.arrays(), strict=True))
    assert (kept.num_growths, kept.copied.total) == (0, 0)


def test_reserved_pages_hold_what_is_written_up_to_the_last() -> None:
    kept = KVStorage(KVShape(2, HEADS, DIM, PAGE_SIZE, mx.float32), 50, reserved=True)
    keys, values = rows(PAGE_SIZE, 9)
    for layer in kept.layers:
        layer.write(keys, values, slots(*range(49 * PAGE_SIZE, 50 * PAGE_SIZE)))
        layer.copy_pages([PageCopy(source=49, target=0)])
        for page in (49, 0):
            found = gathered(layer, [page], PAGE_SIZE)
            assert np.array_equal(found[0], np.array(keys))
            assert np.array_equal(found[1], np.array(values))


def test_bytes_per_page_are_those_of_the_arrays() -> None:
    kept = storage(num_pages=50)
    kept.ensure(1)
    total = sum(layer.nbytes for layer in kept.layers)
    assert total == kept.capacity * kept.shape.bytes_per_page


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_pages_convert_what_is_written_to_their_dtype(dtype: mx.Dtype) -> None:
    layer = KVPages(HEADS, PAGE_SIZE, DIM, dtype)
    layer.grow(2)
    keys, values = rows(3, 8)
    layer.write(keys, values, slots(0, 1, 2))
    found, _ = layer.gather([0], 3)
    assert found.dtype == dtype
    assert mx.array_equal(found, keys.astype(dtype))
