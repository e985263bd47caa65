"""The ten tests that the second seed names, on our pool and tables, by the seed's names.

Each runs on pages of NumPy and on the engine's own KVPages.
"""

import random
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.seeds.layer_pages import Array, DevicePages, MakeLayer, NumpyPages
from tests.engine.seeds.paged_kv_cache import OutOfBlocks, PagedKVCache
from tests.engine.seeds.toy_decoder import (
    HEAD_DIM,
    NUM_HEADS,
    NUM_LAYERS,
    ContiguousCache,
    Floats,
    ToyDecoder,
)

MakeCache = Callable[..., PagedKVCache]


@pytest.fixture(params=[NumpyPages, DevicePages], ids=["numpy", "device"])
def make_cache(request: pytest.FixtureRequest) -> MakeCache:
    """Sizes in the seed's order: blocks, block size, layers, heads, head size."""
    make_layer: MakeLayer = request.param
    return lambda *sizes: PagedKVCache(*sizes, make_layer=make_layer)


def chunk(seed: int, num_tokens: int, num_heads: int = 2, head_dim: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    keys, values = rng.standard_normal((2, num_heads, num_tokens, head_dim)).astype(np.float16)
    return keys, values


def see(cache: PagedKVCache, seq_id: int, num_layers: int) -> list[object]:
    """All that a caller can see of a sequence, and of the pool."""
    gathered = [
        array.tolist() for layer in range(num_layers) for array in cache.gather(seq_id, layer)
    ]
    lengths = [cache.seq_len(seq_id, layer) for layer in range(num_layers)]
    return [gathered, lengths, cache.block_table(seq_id).tolist(), cache.stats()]


def test_hand_example_block_table(make_cache: MakeCache) -> None:
    cache = make_cache(4, 2, 1, 1, 2)
    cache.add_seq(0)
    lengths, tables, pools = [], [], []
    for token in range(5):
        k = np.array([[[token + 0.5, -token]]])
        cache.append(0, 0, k, -k)
        lengths.append(cache.seq_len(0))
        tables.append(len(cache.block_table(0)))
        pools.append((cache.stats()["free"], cache.stats()["used"]))
    assert lengths == [1, 2, 3, 4, 5]
    assert tables == [1, 1, 2, 2, 3]
    assert pools == [(3, 1), (3, 1), (2, 2), (2, 2), (1, 3)]
    keys, values = cache.gather(0, 0)
    assert keys[0, :, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert values.tolist() == (-keys).tolist()
    assert cache.block_table(0).dtype == np.int32

    cache.fork(0, 1)
    assert cache.stats()["used"] == 3
    k = np.array([[[5.5, -5]]])
    cache.append(1, 0, k, -k)
    assert cache.stats()["used"] == 4
    assert cache.gather(0, 0)[0].tolist() == keys.tolist()
    assert cache.gather(1, 0)[0][0, :, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_gather_preserves_head_token_dimension_order(make_cache: MakeCache) -> None:
    cache = make_cache(8, 4, 1, 2, 3)
    cache.add_seq(0)
    k = np.arange(2 * 6 * 3).reshape(2, 6, 3)
    cache.append(0, 0, k, k + 100)
    keys, values = cache.gather(0, 0)
    assert keys.shape == values.shape == (2, 6, 3)
    assert keys.dtype == values.dtype == np.float16
    assert keys.tolist() == k.tolist()
    assert values.tolist() == (k + 100).tolist()


def test_gather_matches_contiguous_float16(make_cache: MakeCache) -> None:
    cache = make_cache(64, 4, 3, 2, 3)
    whole: dict[tuple[int, int], list[tuple[Array, Array]]] = defaultdict(list)
    for seq in range(2):
        cache.add_seq(seq)
    for step, num_tokens in enumerate([1, 2, 3, 4, 5, 6, 7, 1, 7]):
        for seq in range(2):
            for layer in range(3):
                k, v = np.random.default_rng(step * 6 + seq * 3 + layer).standard_normal(
                    (2, 2, num_tokens, 3)
                )
                cache.append(seq, layer, k, v)
                whole[seq, layer].append((k.astype(np.float16), v.astype(np.float16)))
                for gathered, stored in zip(
                    cache.gather(seq, layer), zip(*whole[seq, layer], strict=True), strict=True
                ):
                    assert np.array_equal(gathered, np.concatenate(stored, axis=1))


def test_layers_keep_independent_lengths(make_cache: MakeCache) -> None:
    cache = make_cache(8, 2, 2, 2, 3)
    cache.add_seq(0)
    first, second = chunk(0, 5), chunk(1, 3)
    cache.append(0, 0, *first)
    assert (cache.seq_len(0, 0), cache.seq_len(0, 1)) == (5, 0)
    assert cache.gather(0, 1)[0].shape == (2, 0, 3)
    table = cache.block_table(0).tolist()
    cache.append(0, 1, *second)
    assert cache.block_table(0).tolist() == table
    assert (cache.seq_len(0, 0), cache.seq_len(0, 1)) == (5, 3)
    for layer, (keys, values) in enumerate([first, second]):
        assert np.array_equal(cache.gather(0, layer)[0], keys)
        assert np.array_equal(cache.gather(0, layer)[1], values)


def test_fork_shares_until_a_write(make_cache: MakeCache) -> None:
    cache = make_cache(8, 2, 1, 2, 3)
    cache.add_seq(0)
    cache.append(0, 0, *chunk(0, 5))
    before = cache.gather(0, 0)
    cache.fork(0, 1)
    assert cache.stats()["used"] == 3
    assert cache.block_table(1).tolist() == cache.block_table(0).tolist()

    cache.append(1, 0, *chunk(1, 1))
    assert cache.stats()["used"] == 4
    assert cache.block_table(1)[:2].tolist() == cache.block_table(0)[:2].tolist()
    assert cache.block_table(1)[2] != cache.block_table(0)[2]
    for now, then in zip(cache.gather(0, 0), before, strict=True):
        assert np.array_equal(now, then)
    assert np.array_equal(
        cache.gather(1, 0)[0], np.concatenate([before[0], chunk(1, 1)[0]], axis=1)
    )
    cache.free(0)
    assert cache.stats()["used"] == 3
    assert np.array_equal(cache.gather(1, 0)[0][:, :5], before[0])


def test_free_restores_the_pool(make_cache: MakeCache) -> None:
    cache = make_cache(8, 2, 1, 2, 3)
    cache.add_seq(0)
    cache.append(0, 0, *chunk(0, 5))
    cache.fork(0, 1)
    cache.free(0)
    assert cache.num_free_blocks() == 5
    cache.free(1)
    assert cache.num_free_blocks() == 8
    with cache:
        cache.add_seq(2)
        cache.append(2, 0, *chunk(0, 16))
        assert cache.num_free_blocks() == 0
    assert cache.num_free_blocks() == 8


def test_out_of_blocks_changes_nothing(make_cache: MakeCache) -> None:
    cache = make_cache(4, 2, 1, 2, 3)
    for seq in range(2):
        cache.add_seq(seq)
        cache.append(seq, 0, *chunk(seq, 3))
    before = see(cache, 0, 1)
    with pytest.raises(OutOfBlocks):
        cache.append(0, 0, *chunk(9, 6))
    assert see(cache, 0, 1) == before
    cache.append(0, 0, *chunk(9, 1))

    cache.fork(1, 2)
    before = see(cache, 2, 1)
    with pytest.raises(OutOfBlocks):
        cache.append(2, 0, *chunk(9, 1))
    assert see(cache, 2, 1) == before
    cache.check()


@pytest.mark.parametrize("sizes", [(0, 2, 1, 1, 1), (1, 0, 1, 1, 1), (1, 1, 0, 1, 1)])
@pytest.mark.parametrize("turn", [0, 2])
def test_bad_arguments_sizes(make_cache: MakeCache, sizes: tuple[int, ...], turn: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        make_cache(*sizes[turn:], *sizes[:turn])


def test_bad_arguments(make_cache: MakeCache) -> None:
    cache = make_cache(4, 2, 2, 2, 3)
    cache.add_seq(0)
    cache.append(0, 0, *chunk(0, 3))
    before = see(cache, 0, 2)
    good, empty = np.zeros((2, 1, 3)), np.zeros((2, 0, 3))
    for k, v in [
        (np.zeros((1, 1, 3)), good),
        (good, np.zeros((2, 1, 4))),
        (np.zeros((2, 3)), good),
        (np.zeros((2, 2, 3)), good),
    ]:
        with pytest.raises(ValueError, match=r"expected \[2, T, 3\]|differ|at least one"):
            cache.append(0, 0, k, v)
    for layer in range(2):  # one that leads and one that lags behind
        with pytest.raises(ValueError, match="at least one"):
            cache.append(0, layer, empty, empty)
    for layer in (-1, 2):
        with pytest.raises(ValueError, match=f"layer {layer}"):
            cache.append(0, layer, good, good)
        with pytest.raises(ValueError, match=f"layer {layer}"):
            cache.gather(0, layer)
    for use_unknown in (
        lambda: cache.append(7, 0, good, good),
        lambda: cache.gather(7, 0),
        lambda: cache.seq_len(7),
        lambda: cache.block_table(7),
        lambda: cache.free(7),
        lambda: cache.fork(7, 8),
    ):
        with pytest.raises(KeyError):
            use_unknown()
    for use_again in (lambda: cache.add_seq(0), lambda: cache.fork(0, 0)):
        with pytest.raises(ValueError, match="exists already"):
            use_again()
    assert see(cache, 0, 2) == before
    cache.free(0)
    with pytest.raises(KeyError):
        cache.free(0)


class OneSequence:
    """One sequence of a PagedKVCache, as a decoder's cache."""

    def __init__(self, cache: PagedKVCache, seq_id: int) -> None:
        self._cache = cache
        self._seq_id = seq_id

    def update(self, layer: int, k: Floats, v: Floats) -> tuple[Array, Array]:
        self._cache.append(self._seq_id, layer, k, v)
        return self._cache.gather(self._seq_id, layer)


@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_paged_matches_contiguous_decoding(make_cache: MakeCache, block_size: int) -> None:
    decoder = ToyDecoder(seed=3)
    prompt = [3, 1, 4, 1, 5, 9, 2]
    contiguous = ContiguousCache()
    paged = make_cache(64, block_size, NUM_LAYERS, NUM_HEADS, HEAD_DIM)
    paged.add_seq(0)
    expected = decoder.logits(prompt, contiguous)
    got = decoder.logits(prompt, OneSequence(paged, 0))
    assert np.allclose(got, expected, atol=1e-5)

    branch = contiguous.fork()
    paged.fork(0, 1)
    second_best = expected.copy()
    second_best[np.argmax(expected)] = -np.inf
    for seq_id, cache, start in ((0, contiguous, expected), (1, branch, second_best)):
        tokens, logits = decoder.greedy(start, cache, 12)
        paged_tokens, paged_logits = decoder.greedy(start, OneSequence(paged, seq_id), 12)
        assert paged_tokens == tokens
        assert np.allclose(paged_logits, logits, atol=1e-5)


class Oracle:
    """Each sequence's K and V of each layer as plain lists of positions."""

    def __init__(self, num_layers: int) -> None:
        self.sequences: dict[int, list[list[np.ndarray]]] = {}
        self.num_layers = num_layers

    def add(self, seq_id: int) -> None:
        self.sequences[seq_id] = [[] for _ in range(self.num_layers)]

    def fork(self, parent: int, child: int) -> None:
        self.sequences[child] = [list(layer) for layer in self.sequences[parent]]

    def append(self, seq_id: int, layer: int, keys: Array) -> None:
        self.sequences[seq_id][layer] += list(keys.swapaxes(0, 1))


@pytest.mark.parametrize(
    ("make_layer", "num_operations"),
    [(NumpyPages, 10_000), (DevicePages, 1_000)],
    ids=["numpy", "device"],
)
def test_random_ops_conserve_blocks(make_layer: MakeLayer, num_operations: int) -> None:
    dice = random.Random(0)
    num_layers, block_size, num_blocks = 2, 3, 12
    cache = PagedKVCache(num_blocks, block_size, num_layers, 1, 2, make_layer)
    oracle = Oracle(num_layers)
    refused = 0
    for number in range(num_operations):
        ids = sorted(oracle.sequences)
        operation = dice.choice(["add", "fork", "append", "append", "append", "append", "free"])
        if operation == "add" and len(ids) < 6:
            cache.add_seq(number)
            oracle.add(number)
        elif operation == "fork" and 0 < len(ids) < 6:
            parent = dice.choice(ids)
            cache.fork(parent, number)
            oracle.fork(parent, number)
        elif operation == "append" and ids:
            seq_id, layer = dice.choice(ids), dice.randrange(num_layers)
            keys = np.full((1, dice.randint(1, 5), 2), number % 2048, np.float16)
            try:
                cache.append(seq_id, layer, keys, -keys)
                oracle.append(seq_id, layer, keys)
            except OutOfBlocks:
                refused += 1
        elif operation == "free" and ids:
            seq_id = dice.choice(ids)
            cache.free(seq_id)
            del oracle.sequences[seq_id]
        check_against(cache, oracle, dice)
    for seq_id in list(oracle.sequences):
        cache.free(seq_id)
    assert cache.num_free_blocks() == num_blocks
    assert refused > num_operations // 100


def check_against(cache: PagedKVCache, oracle: Oracle, dice: random.Random) -> None:
    """The law of the pool, every length, and the content of one sequence."""
    cache.check()
    stats = cache.stats()
    assert stats["free"] + stats["used"] == 12
    assert stats["used"] == len(
        {b for s in oracle.sequences for b in cache.block_table(s).tolist()}
    )
    for seq_id, layers in oracle.sequences.items():
        longest = max(len(layer) for layer in layers)
        assert len(cache.block_table(seq_id)) == -(-longest // 3)
        assert [cache.seq_len(seq_id, i) for i in range(2)] == [len(layer) for layer in layers]
    if oracle.sequences:
        seq_id = dice.choice(sorted(oracle.sequences))
        for i, layer in enumerate(oracle.sequences[seq_id]):
            keys, values = cache.gather(seq_id, i)
            expected = np.array(layer, np.float16).reshape(-1, 1, 2).swapaxes(0, 1)
            assert np.array_equal(keys, expected)
            assert np.array_equal(values, -expected)
