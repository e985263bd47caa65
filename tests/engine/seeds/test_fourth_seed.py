"""What the fourth seed says: scattered underneath, contiguous on top, one table for all layers."""

from collections.abc import Sequence

import numpy as np
import pytest

from engine.page_pool import PagePool
from engine.page_table import PageTable
from tests.engine.seeds.layer_pages import Array, DevicePages, LayerPages, MakeLayer, NumpyPages
from tests.engine.seeds.toy_decoder import (
    HEAD_DIM,
    NUM_HEADS,
    NUM_LAYERS,
    ContiguousCache,
    Floats,
    ToyDecoder,
)

B = 4
PROMPT = [3, 1, 4, 1, 5, 9, 2]


class SteppedCache:
    """The table grows when layer 0 appends; the other layers of that pass use the same slots."""

    def __init__(self, table: PageTable, layers: Sequence[LayerPages]) -> None:
        self._table = table
        self._layers = layers
        self._start = 0

    def update(self, layer: int, k: Floats, v: Floats) -> tuple[Array, Array]:
        if layer == 0:
            self._start = self._table.context_len
            self._table.keep(self._table.append(k.shape[1]))
        slots = self._table.slots(self._start, self._table.context_len)
        pages = self._layers[layer]
        rows = [array.astype(np.float16).swapaxes(0, 1) for array in (k, v)]
        pages.write(rows[0], rows[1], slots)
        keys, values = pages.gather(self._table.page_ids, self._table.context_len)
        return keys.swapaxes(0, 1), values.swapaxes(0, 1)


def scattered_table(pool: PagePool) -> PageTable:
    """A table whose next pages are out of order, because others freed theirs in between."""
    others = [PageTable(pool) for _ in range(3)]
    for other in others:
        other.append(1)
    for other in (others[0], others[2]):
        other.release()
    return PageTable(pool)


@pytest.mark.parametrize("make_layer", [NumpyPages, DevicePages], ids=["numpy", "device"])
def test_scattered_pages_read_as_one_contiguous_text(make_layer: MakeLayer) -> None:
    pool = PagePool(16, B)
    table = scattered_table(pool)
    layers = [make_layer(16, NUM_HEADS, B, HEAD_DIM) for _ in range(NUM_LAYERS)]
    paged, contiguous = SteppedCache(table, layers), ContiguousCache()
    rng = np.random.default_rng(0)
    for num_tokens in (7, 1, 1, 5):
        for layer in range(NUM_LAYERS):
            k, v = rng.standard_normal((2, NUM_HEADS, num_tokens, HEAD_DIM)).astype(np.float32)
            for got, expected in zip(
                paged.update(layer, k, v), contiguous.update(layer, k, v), strict=True
            ):
                assert got.tobytes() == expected.tobytes()
    assert list(table.page_ids[:2]) == [2, 0]


@pytest.mark.parametrize("make_layer", [NumpyPages, DevicePages], ids=["numpy", "device"])
def test_greedy_decoding_over_scattered_pages_gives_the_same_tokens(make_layer: MakeLayer) -> None:
    decoder = ToyDecoder(seed=5)
    table = scattered_table(PagePool(16, B))
    layers = [make_layer(16, NUM_HEADS, B, HEAD_DIM) for _ in range(NUM_LAYERS)]
    answers = []
    for cache in (SteppedCache(table, layers), ContiguousCache()):
        tokens, _ = decoder.greedy(decoder.logits(PROMPT, cache), cache, 20)
        answers.append(tokens)
    assert answers[0] == answers[1]


def test_a_pass_over_many_layers_takes_pages_once() -> None:
    pool = PagePool(16, B)
    layers = [NumpyPages(16, NUM_HEADS, B, HEAD_DIM) for _ in range(NUM_LAYERS)]
    ToyDecoder(seed=5).logits(PROMPT, SteppedCache(PageTable(pool), layers))
    assert pool.num_used == 2


def test_the_pages_of_a_finished_text_serve_the_next() -> None:
    decoder, pool = ToyDecoder(seed=5), PagePool(8, B)
    layers = [NumpyPages(8, NUM_HEADS, B, HEAD_DIM) for _ in range(NUM_LAYERS)]
    answers = []
    for _ in range(10):
        table = PageTable(pool)
        cache = SteppedCache(table, layers)
        answers.append(decoder.greedy(decoder.logits(PROMPT, cache), cache, 20)[0])
        table.release()
    assert pool.num_free == 8
    assert all(answer == answers[0] for answer in answers)
