"""Attention of one step over the pages: `PagedAttention` reads them in place, `DenseAttention`
gathers them first. Both are `Attend`s for a model; the second is the oracle of the first.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.config import AttentionKind
from engine.kv_pages import KVPages
from engine.models.model import Attend
from engine.step_arrays import StepArrays
from engine.step_batch import StepBatch
from metal import paged_attention


class PagedAttention:
    def __init__(self, layers: Sequence[KVPages], arrays: StepArrays) -> None:
        self._layers = layers
        self._arrays = arrays

    def __call__(  # noqa: PLR0913 - the seam `Attend`
        self,
        layer: int,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        *,
        scale: float,
        window: int | None = None,
        soft_cap: float | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        pages, arrays = self._layers[layer], self._arrays
        pages.write(k, v, arrays.slot_mapping)
        return paged_attention(
            q,
            pages.key_pages,
            pages.value_pages,
            arrays.block_table,
            arrays.context_lens,
            arrays.query_start_locs,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            sinks=sinks,
        )


class DenseAttention:
    """Copies every sequence's K and V out of the pages, then attends with plain MLX operations."""

    def __init__(self, layers: Sequence[KVPages], arrays: StepArrays, batch: StepBatch) -> None:
        self._layers = layers
        self._arrays = arrays
        self._rows = batch.rows

    def __call__(  # noqa: PLR0913 - the seam `Attend`
        self,
        layer: int,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        *,
        scale: float,
        window: int | None = None,
        soft_cap: float | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        pages = self._layers[layer]
        pages.write(k, v, self._arrays.slot_mapping)
        outputs = []
        start = 0
        for row in self._rows:
            stop = start + len(row.token_ids)
            keys, values = pages.gather(row.page_ids, row.context_len)
            scores = _scores(q[start:stop], keys, scale, soft_cap)  # [H_q, L, S]
            mask = _mask(row.start, row.context_len, window)  # [L, S]
            weights = _softmax(mx.where(mask, scores, -mx.inf), sinks)
            outputs.append(_weighted(weights, values).astype(q.dtype))  # [L, H_q, D]
            start = stop
        return mx.concatenate(outputs)


def make_attention(
    kind: AttentionKind, layers: Sequence[KVPages], arrays: StepArrays, batch: StepBatch
) -> Attend:
    if kind is AttentionKind.DENSE:
        return DenseAttention(layers, arrays, batch)
    return PagedAttention(layers, arrays)


def _scores(q: mx.array, keys: mx.array, scale: float, soft_cap: float | None) -> mx.array:
    """q [L, H_q, D], keys [S, H_kv, D] -> float32 [H_q, L, S]; each KV head serves a group of q heads."""
    queries = q.astype(mx.float32).swapaxes(0, 1) * scale
    per_head = mx.repeat(
        keys.astype(mx.float32).swapaxes(0, 1), q.shape[1] // keys.shape[1], axis=0
    )
    scores = queries @ per_head.swapaxes(1, 2)
    return scores if soft_cap is None else soft_cap * mx.tanh(scores / soft_cap)


def _mask(start: int, context_len: int, window: int | None) -> mx.array:
    """Bool [L, S]: position start + i sees the positions up to itself, at most `window` of them."""
    queries = mx.arange(start, context_len)[:, None]
    keys = mx.arange(context_len)[None]
    seen = keys <= queries
    return seen if window is None else seen & (keys > queries - window)


def _softmax(scores: mx.array, sinks: mx.array | None) -> mx.array:
    """Over the last axis; a head's sink takes part in the sum and gets no output."""
    if sinks is None:
        return mx.softmax(scores, axis=-1)
    column = mx.broadcast_to(sinks.astype(mx.float32)[:, None, None], (*scores.shape[:2], 1))
    return mx.softmax(mx.concatenate([scores, column], axis=-1), axis=-1)[..., :-1]


def _weighted(weights: mx.array, values: mx.array) -> mx.array:
    """weights [H_q, L, S], values [S, H_kv, D] -> float32 [L, H_q, D]"""
    groups = weights.shape[0] // values.shape[1]
    per_head = mx.repeat(values.astype(mx.float32).swapaxes(0, 1), groups, axis=0)
    return (weights @ per_head).swapaxes(0, 1)
