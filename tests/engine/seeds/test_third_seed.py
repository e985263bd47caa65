"""What the third seed says: its walk of three writes, and a failed write that never was."""

from collections.abc import Sequence

import numpy as np
import pytest

from engine.page_pool import PagePool
from engine.page_table import PageTable
from tests.engine.seeds.layer_pages import Array, NumpyPages
from tests.engine.seeds.paged_kv_cache import PagedKVCache


class BreakableWrites:
    """How many writes go well before one raises; shared by all layers."""

    def __init__(self) -> None:
        self.left = 1_000

    def layer(self, *sizes: int) -> NumpyPages:
        return BreakablePages(self, *sizes)


class BreakablePages(NumpyPages):
    """A write stores K, then V; each is one write that can fail."""

    def __init__(self, writes: BreakableWrites, *sizes: int) -> None:
        super().__init__(*sizes)
        self._writes = writes

    def _write_rows(self, pages: Array, rows: Array, slots: Sequence[int]) -> None:
        self._writes.left -= 1
        if self._writes.left < 0:
            raise MemoryError("the device is out of memory")
        super()._write_rows(pages, rows, slots)


def rows(seed: int, num_tokens: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    keys, values = rng.standard_normal((2, 2, num_tokens, 3)).astype(np.float16)
    return keys, values


def see(cache: PagedKVCache) -> list[object]:
    return [
        [array.tolist() for layer in range(2) for array in cache.gather(0, layer)],
        [cache.seq_len(0, layer) for layer in range(2)],
        cache.block_table(0).tolist(),
        cache.stats(),
    ]


def test_writes_of_three_two_and_four_tokens_fill_three_pages_of_four() -> None:
    table = PageTable(PagePool(8, 4))
    seen = []
    for num_tokens in (3, 2, 4):
        table.keep(table.append(num_tokens))
        seen.append((list(table.page_ids), table.context_len))
    assert seen == [([0], 3), ([0, 1], 5), ([0, 1, 2], 9)]


@pytest.mark.parametrize("writes_before", [0, 1], ids=["K fails", "V fails after K"])
@pytest.mark.parametrize("num_tokens", [1, 2, 9])
@pytest.mark.parametrize("is_forked", [False, True])
def test_a_failed_write_rolls_the_append_back(
    writes_before: int, num_tokens: int, is_forked: bool
) -> None:
    writes = BreakableWrites()
    cache = PagedKVCache(8, 4, 2, 2, 3, writes.layer)
    cache.add_seq(0)
    for layer in range(2):
        cache.append(0, layer, *rows(layer, 6))
    if is_forked:
        cache.fork(0, 1)
    before = see(cache)
    writes.left = writes_before
    with pytest.raises(MemoryError):
        cache.append(0, 0, *rows(9, num_tokens))
    assert see(cache) == before
    cache.check()


def test_an_append_after_a_failed_one_goes_on_as_if_it_had_not_been() -> None:
    writes = BreakableWrites()
    broken, sound = (PagedKVCache(8, 4, 2, 2, 3, layer) for layer in (writes.layer, NumpyPages))
    for cache in (broken, sound):
        cache.add_seq(0)
        cache.append(0, 0, *rows(0, 6))
    writes.left = 1
    with pytest.raises(MemoryError):
        broken.append(0, 0, *rows(1, 5))
    writes.left = 1_000
    for cache in (broken, sound):
        cache.append(0, 0, *rows(2, 3))
        cache.append(0, 1, *rows(3, 9))
    assert see(broken) == see(sound)


def test_a_lagging_layer_whose_write_fails_changes_nothing() -> None:
    writes = BreakableWrites()
    cache = PagedKVCache(8, 4, 2, 2, 3, writes.layer)
    cache.add_seq(0)
    cache.append(0, 0, *rows(0, 6))
    cache.fork(0, 1)
    before = see(cache)
    writes.left = 1
    with pytest.raises(MemoryError):
        cache.append(0, 1, *rows(1, 9))
    assert see(cache) == before
    cache.check()
