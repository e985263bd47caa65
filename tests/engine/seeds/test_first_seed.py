"""What the first seed says of growth, reuse, rewinding and fragmentation."""

import mlx.core as mx
import numpy as np
import pytest

from engine.engine_stats import EngineStats
from engine.growth import INITIAL_PAGES
from engine.kv_storage import KVShape, KVStorage
from engine.page_pool import PagePool
from engine.page_table import PageTable
from engine.pool_snapshot import count_unused_tail_slots
from engine.sequence import Sequence
from tests.engine.seeds.toy_decoder import Floats
from tests.support.stepper import make_request

SHAPE = KVShape(num_layers=2, num_kv_heads=2, head_dim=3, page_size=4, dtype=mx.float32)
B = SHAPE.page_size


class GrowingCache:
    """One text in pages whose memory grows with the pool, beside the same text in dense arrays."""

    def __init__(self, pool: PagePool) -> None:
        self.storage = KVStorage(SHAPE, pool.num_pages)
        self.table = PageTable(pool)
        self.dense: list[Floats] = [np.zeros((0, 2, 3), np.float32) for _ in range(2)]
        self._pool = pool

    def append(self, num_tokens: int) -> None:
        start = self.table.context_len
        self.table.keep(self.table.append(num_tokens))
        self.storage.ensure(self._pool.num_touched)
        slots = mx.array(self.table.slots(start, start + num_tokens), mx.int32)
        for layer, pages in enumerate(self.storage.layers):
            rng = np.random.default_rng(start * 2 + layer)
            rows = rng.standard_normal((num_tokens, 2, 3), np.float32)
            pages.write(mx.array(rows), mx.array(-rows), slots)
            self.dense[layer] = np.concatenate([self.dense[layer], rows])
        mx.eval(self.storage.arrays())

    def rewind(self, num_tokens: int) -> None:
        self.table.rewind(num_tokens)
        self.dense = [rows[: len(rows) - num_tokens] for rows in self.dense]

    def check(self) -> None:
        """Every layer gathers to its dense twin."""
        for pages, dense in zip(self.storage.layers, self.dense, strict=True):
            keys, values = pages.gather(self.table.page_ids, self.table.context_len)
            assert np.array_equal(np.array(keys), dense)
            assert np.array_equal(np.array(values), -dense)


def test_logical_pages_and_physical_capacity_are_two_figures() -> None:
    pool = PagePool(100, B)
    cache = GrowingCache(pool)
    cache.append(5 * B)
    assert pool.num_used == 5
    assert cache.storage.capacity == INITIAL_PAGES


def test_capacity_grows_geometrically_and_the_last_growth_stops_at_the_budget() -> None:
    pool = PagePool(70, B)
    cache = GrowingCache(pool)
    capacities = []
    for _ in range(70):
        cache.append(B)
        capacities.append(cache.storage.capacity)
    assert sorted({*capacities}) == [16, 32, 64, 70]
    assert cache.storage.num_growths == 4


def test_growth_keeps_every_token_of_every_layer() -> None:
    """Case D11: one token at a time through several growths, compared after each growth."""
    pool = PagePool(70, B)
    cache = GrowingCache(pool)
    for _ in range(65 * B + 1):
        growths = cache.storage.num_growths
        cache.append(1)
        if cache.storage.num_growths > growths:
            cache.check()
    cache.check()
    assert cache.storage.copied.growth < 2 * 70 * SHAPE.bytes_per_page


def test_a_first_append_larger_than_the_start_is_met_in_one_growth() -> None:
    """Case D11."""
    cache = GrowingCache(PagePool(100, B))
    cache.append((INITIAL_PAGES + 5) * B)
    cache.check()
    assert (cache.storage.num_growths, cache.storage.copied.growth) == (1, 0)


def test_returned_pages_are_reused_before_memory_grows() -> None:
    pool = PagePool(100, B)
    cache = GrowingCache(pool)
    cache.append(INITIAL_PAGES * B)
    cache.rewind(INITIAL_PAGES * B)
    cache.append(INITIAL_PAGES * B)
    cache.check()
    assert cache.storage.num_growths == 1
    assert pool.num_touched == INITIAL_PAGES


def test_six_tokens_in_pages_of_four_leave_two_slots_for_the_next() -> None:
    pool = PagePool(8, B)
    table = PageTable(pool)
    table.append(6)
    first, second = table.page_ids
    assert table.num_unused_slots == 2
    table.append(1)
    assert list(table.page_ids) == [first, second]
    assert table.slots(6, 7) == [second * B + 2]


@pytest.mark.parametrize("num_tokens", [0, 1, B - 1, B, B + 1, 10])
def test_rewind_then_append_equals_a_text_that_never_had_the_tokens(num_tokens: int) -> None:
    """Case D07, in every layer, through KVPages."""
    cache = GrowingCache(PagePool(30, B))
    cache.append(10)
    cache.rewind(num_tokens)
    cache.append(3)
    cache.check()


def test_rewind_after_a_growth_keeps_the_rest() -> None:
    """Case D07."""
    cache = GrowingCache(PagePool(100, B))
    cache.append(INITIAL_PAGES * B)
    cache.append(B + 1)
    cache.rewind(B + 3)
    cache.append(7)
    cache.check()


# --- fragmentation ---


def sequence_of(pool: PagePool, num_tokens: int) -> Sequence:
    table = PageTable(pool)
    table.keep(table.append(num_tokens))
    return Sequence.begin(make_request("a", [1] * num_tokens), 0, table)


def stats_of(pool: PagePool, sequences: list[Sequence]) -> EngineStats:
    counters = dict.fromkeys(EngineStats.__dataclass_fields__, 0)
    counters |= {
        "pages_used": pool.num_used,
        "page_size": pool.page_size,
        "page_capacity": pool.num_pages,
        "bytes_per_page": SHAPE.bytes_per_page,
        "unused_tail_slots": count_unused_tail_slots(sequences),
    }
    return EngineStats(**counters)


def test_fragmentation_is_unused_tail_slots_over_slots_of_live_pages() -> None:
    pool = PagePool(100, B)
    sequences = [sequence_of(pool, length) for length in (1, 4, 6)]  # 3 + 0 + 2 of 16 slots
    stats = stats_of(pool, sequences)
    assert stats.unused_tail_slots == 5
    assert stats.fragmentation_ratio == 5 / 16
    assert stats.unused_tail_bytes == 5 * SHAPE.bytes_per_page // B


def test_unused_capacity_is_no_fragmentation() -> None:
    """The pool has 100 pages with memory behind them; only the one live page counts."""
    pool = PagePool(100, B)
    assert stats_of(pool, [sequence_of(pool, 3)]).fragmentation_ratio == 1 / 4


def test_a_pool_without_live_pages_is_not_fragmented() -> None:
    assert stats_of(PagePool(100, B), []).fragmentation_ratio == 0.0


def test_a_shared_tail_is_counted_once() -> None:
    pool = PagePool(100, B)
    parent = sequence_of(pool, 6)
    child = Sequence.begin(parent.request, 1, parent.table.fork())
    stats = stats_of(pool, [parent, child])
    assert stats.unused_tail_slots == 2
    assert stats.fragmentation_ratio == 2 / 8
