"""A plain attention for tests of models: K and V of each sequence kept whole, masks spelled out."""

from collections.abc import Sequence

import mlx.core as mx


class DenseAttend:
    """Implements `Attend` for one step of a flat batch; keeps K and V from step to step.

    `row_lengths[i]` tokens of the batch belong to sequence i, in order.
    """

    def __init__(self, num_sequences: int = 1) -> None:
        self._kept: dict[tuple[int, int], tuple[mx.array, mx.array]] = {}
        self.row_lengths: Sequence[int] = [0] * num_sequences

    def __call__(self, layer, q, k, v, *, scale, window=None, soft_cap=None, sinks=None):  # noqa: PLR0913
        assert soft_cap is None
        assert sinks is None
        outputs, start = [], 0
        for sequence, length in enumerate(self.row_lengths):
            rows = slice(start, start + length)
            start += length
            if length:
                keys, values = self._extended(layer, sequence, k[rows], v[rows])
                outputs.append(attention(q[rows], keys, values, scale, window))
        assert start == len(q)
        return mx.concatenate(outputs)

    def _extended(self, layer, sequence, k, v):
        if (layer, sequence) in self._kept:
            old_k, old_v = self._kept[layer, sequence]
            k, v = mx.concatenate([old_k, k]), mx.concatenate([old_v, v])
        self._kept[layer, sequence] = k, v
        return k, v


def attention(q, keys, values, scale, window):
    """Causal attention of the last len(q) tokens: q [T, H_q, D], keys and values [S, H_kv, D]."""
    group = q.shape[1] // keys.shape[1]
    keys, values = (mx.repeat(x.swapaxes(0, 1), group, axis=0) for x in (keys, values))
    scores = (q.swapaxes(0, 1) * scale) @ keys.swapaxes(1, 2)  # [H_q, T, S]
    context = keys.shape[1]
    query_at = mx.arange(context - len(q), context)[:, None]
    key_at = mx.arange(context)[None]
    visible = key_at <= query_at
    if window is not None:
        visible = visible & (key_at > query_at - window)
    weights = mx.softmax(mx.where(visible, scores, -mx.inf), axis=-1)
    return (weights @ values).swapaxes(0, 1)
