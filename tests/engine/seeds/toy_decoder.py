"""A two-layer decoder in NumPy, and the contiguous cache that any paged one must equal."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tests.engine.seeds.layer_pages import Array

Floats = NDArray[np.float32]

NUM_LAYERS, NUM_HEADS, HEAD_DIM, VOCAB_SIZE = 2, 2, 4, 31
WIDTH = NUM_HEADS * HEAD_DIM


class LayerCache(Protocol):
    """One sequence's K and V: store [H, T, D] of a layer, get the whole history [H, length, D]."""

    def update(self, layer: int, k: Floats, v: Floats) -> tuple[Array, Array]: ...


class ContiguousCache:
    """One growing float16 array for each of K and V of a layer."""

    def __init__(self) -> None:
        empty = np.zeros((NUM_HEADS, 0, HEAD_DIM), np.float16)
        self._layers = [(empty, empty)] * NUM_LAYERS

    def fork(self) -> "ContiguousCache":
        child = ContiguousCache()
        child._layers = list(self._layers)
        return child

    def update(self, layer: int, k: Floats, v: Floats) -> tuple[Array, Array]:
        keys, values = self._layers[layer]
        self._layers[layer] = (
            np.concatenate([keys, k.astype(np.float16)], axis=1),
            np.concatenate([values, v.astype(np.float16)], axis=1),
        )
        return self._layers[layer]


class ToyDecoder:
    """Causal attention and a residual in each layer; float32, weights from a seed."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)

        def weights(*shape: int) -> Floats:
            return rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[-1]))

        self._embedding = weights(VOCAB_SIZE, WIDTH) * 3
        self._qkv = [weights(3, WIDTH, WIDTH) for _ in range(NUM_LAYERS)]
        self._head = weights(WIDTH, VOCAB_SIZE)

    def logits(self, token_ids: Sequence[int], cache: LayerCache) -> Floats:
        """Logits [vocab] after the last of the new tokens, whose K/V go into the cache."""
        hidden = self._embedding[list(token_ids)]  # [T, W]
        for layer in range(NUM_LAYERS):
            q, k, v = (self._heads(hidden @ weight) for weight in self._qkv[layer])
            keys, values = cache.update(layer, k, v)
            hidden = hidden + self._attend(q, keys, values)
        return np.asarray(hidden[-1] @ self._head, np.float32)

    def greedy(self, logits: Floats, cache: LayerCache, count: int) -> tuple[list[int], Floats]:
        """Generate `count` tokens; returns them and the logits [count, vocab] behind them."""
        tokens, rows = [], []
        for _ in range(count):
            tokens.append(int(np.argmax(logits)))
            logits = self.logits(tokens[-1:], cache)
            rows.append(logits)
        return tokens, np.stack(rows)

    def _heads(self, rows: Floats) -> Floats:
        return rows.reshape(-1, NUM_HEADS, HEAD_DIM).swapaxes(0, 1)  # [H, T, D]

    def _attend(self, q: Floats, keys: Array, values: Array) -> Floats:
        num_new, length = q.shape[1], keys.shape[1]
        scores = q @ keys.astype(np.float32).swapaxes(1, 2) / np.sqrt(np.float32(HEAD_DIM))
        hidden = np.triu(np.ones((num_new, length), bool), length - num_new + 1)
        scores = np.where(hidden, -np.inf, scores)  # [H, T, length]
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = weights @ values.astype(np.float32)  # [H, T, D]
        return np.asarray(mixed.swapaxes(0, 1).reshape(num_new, WIDTH), np.float32)
