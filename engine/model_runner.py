"""Computes a step on the device: page copies, the forward pass, the logits that are needed, tokens.

One evaluation a step. Two things evaluate by themselves: growth of the pages on a GPU, which is rare
and counted, and the scoring of prompt tokens, so that its logits never lie in memory all at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import mlx.core as mx
import numpy as np

from engine.attention import make_attention
from engine.config import AttentionKind
from engine.engine_stats import StorageStats
from engine.kv_storage import KVStorage
from engine.models.model import CausalLM
from engine.sampler import Floats, SamplingFault, is_plain_greedy, sample, token_logprob
from engine.step_arrays import step_arrays
from engine.step_batch import Draw, Drawn, Row, RowResult, StepBatch, StepResult
from engine.token_event import TokenLogprob

Sample = Callable[[Floats, Draw], Drawn]
Evaluate = Callable[[Sequence[mx.array]], None]
SCORED_TOKENS = 64  # prompt tokens whose logits [64, V] are in memory at a time


@dataclass(frozen=True, slots=True)
class _Logits:
    """What follows each token after which something is drawn, R of them, on the host."""

    rows: Floats  # [R, V]
    best: list[int]  # [R], the argmax
    best_logits: list[float]  # [R], not finite where a logit is not


class ModelRunner:
    """Owns the model and the K/V; every call comes from the one device thread.

    `evaluate` makes a step's arrays real; a test may count what it is given.
    """

    def __init__(
        self,
        model: CausalLM,
        storage: KVStorage,
        attention: AttentionKind,
        sample_row: Sample = sample,
        evaluate: Evaluate = mx.eval,
    ) -> None:
        self._model = model
        self._storage = storage
        self._attention = attention
        self._sample = sample_row
        self._evaluate = evaluate

    def storage_stats(self) -> StorageStats:
        return self._storage.stats()

    def run(self, batch: StepBatch) -> StepResult:
        """Compute every row. Raises whatever the device raises; K/V is then as before the step,
        but for slots that the step had reserved."""
        self._storage.ensure(batch.num_pages)
        before = self._storage.snapshot()
        try:
            return self._compute(batch)
        except Exception:
            self._storage.restore(before)
            raise

    def _compute(self, batch: StepBatch) -> StepResult:
        self._storage.copy_pages(batch.page_copies)
        arrays = step_arrays(batch)
        attend = make_attention(self._attention, self._storage.layers, arrays, batch)
        hidden = self._model(arrays.token_ids, arrays.positions, attend)  # [T, hidden]
        logits = self._logits(batch, hidden)
        drawn = iter(self._draw_rows(batch, logits) if logits else ())
        starts = accumulate((len(row.token_ids) for row in batch.rows), initial=0)
        return StepResult(
            tuple(
                RowResult(
                    drawn=next(drawn) if row.draws else (),
                    scores=tuple(self._score(row, hidden[start:])) if row.targets else (),
                )
                for row, start in zip(batch.rows, starts, strict=False)
            )
        )

    def _logits(self, batch: StepBatch, hidden: mx.array) -> _Logits | None:
        """The step's one evaluation: K/V of all layers, hidden states, logits where a row draws."""
        starts = accumulate((len(row.token_ids) for row in batch.rows), initial=0)
        places = [
            start + place
            for row, start in zip(batch.rows, starts, strict=False)
            for place in row.drawn_after
        ]
        if not places:
            self._evaluate([hidden, *self._storage.arrays()])
            return None
        logits = self._model.logits(hidden[mx.array(places, mx.int32)])  # [R, V]
        best = mx.argmax(logits, axis=-1)
        best_logits = mx.max(logits, axis=-1)
        self._evaluate([best, best_logits, logits, hidden, *self._storage.arrays()])
        return _Logits(np.array(logits, copy=False), _ints(best), _floats(best_logits))

    def _draw_rows(self, batch: StepBatch, logits: _Logits) -> Iterator[tuple[Drawn, ...]]:
        first = 0
        for row in batch.rows:
            if row.draws:
                yield tuple(self._draw_row(row, first, logits))
                first += len(row.drawn_after)

    def _draw_row(self, row: Row, first: int, logits: _Logits) -> Iterator[Drawn]:
        """The tokens of a row whose logits begin at `first`, up to one that contradicts a draft."""
        for draw in row.draws:
            drawn = self._draw(draw, first + draw.position - row.draws[0].position, logits)
            yield drawn
            if not row.goes_on_with(draw.position, drawn.token_id):
                return

    def _draw(self, draw: Draw, i: int, logits: _Logits) -> Drawn:
        """One token, or the error that this sequence alone ends with."""
        if is_plain_greedy(draw) and np.isfinite(logits.best_logits[i]):
            return Drawn(logits.best[i])
        try:
            return self._sample(logits.rows[i], draw)
        except SamplingFault as error:
            return Drawn(None, error=str(error))
        except Exception as error:  # noqa: BLE001 - a fault of one row must stay its own
            return Drawn(None, error=f"sampling failed: {type(error).__name__}")

    def _score(self, row: Row, hidden: mx.array) -> Iterator[TokenLogprob]:
        """The log probability of each target; `hidden` [.., hidden] begins with the row's first."""
        for start in range(0, len(row.targets), SCORED_TOKENS):
            targets = row.targets[start : start + SCORED_TOKENS]
            logits = np.array(self._model.logits(hidden[start : start + len(targets)]))
            for row_logits, target in zip(logits, targets, strict=True):
                yield token_logprob(row_logits, target, row.num_alternatives)


def _ints(array: mx.array) -> list[int]:
    return [int(value) for value in np.array(array)]


def _floats(array: mx.array) -> list[float]:
    return [float(value) for value in np.array(array)]
