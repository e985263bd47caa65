"""A runner without a device: the next token is a plain function of the whole context.

It keeps token ids where a model keeps K/V, slot by slot, so a wrong page, a missing copy or a
stale slot changes the tokens that come out.
"""

from collections.abc import Callable, Sequence

from engine.engine_stats import CopiedBytes, StorageStats
from engine.step_batch import Drawn, Row, RowResult, StepBatch, StepResult

VOCAB_SIZE = 64


def next_token(context: Sequence[int], index: int) -> int:
    """Any function of every token and of their order will do."""
    value = 17 * index
    for token in context:
        value = (value * 31 + token + 1) % 1_000_003
    return value % VOCAB_SIZE


def solo_tokens(prompt: Sequence[int], max_tokens: int, index: int = 0) -> list[int]:
    """What a request generates when nothing ends it early."""
    tokens = list(prompt)
    for _ in range(max_tokens):
        tokens.append(next_token(tokens, index))
    return tokens[len(prompt) :]


class FakeRunner:
    """`before_step` is called with each batch first: it may raise, or note what was planned."""

    def __init__(
        self, page_size: int, before_step: Callable[[StepBatch], None] = lambda _: None
    ) -> None:
        self._page_size = page_size
        self._before_step = before_step
        self._slots: dict[int, int] = {}

    def run(self, batch: StepBatch) -> StepResult:
        self._before_step(batch)
        for copy in batch.page_copies:
            for i in range(self._page_size):
                source = copy.source * self._page_size + i
                if source in self._slots:
                    self._slots[copy.target * self._page_size + i] = self._slots[source]
        return StepResult(tuple(self._run_row(row) for row in batch.rows))

    def storage_stats(self) -> StorageStats:
        return StorageStats(0, bytes_per_page=1, num_growths=0, copied=CopiedBytes())

    def _run_row(self, row: Row) -> RowResult:
        self._slots.update(zip(row.slots, row.token_ids, strict=True))
        size = self._page_size
        context = [
            self._slots[row.page_ids[p // size] * size + p % size] for p in range(row.context_len)
        ]
        drawn = []
        for draw in row.draws:
            drawn.append(Drawn(next_token(context[: draw.position], draw.index)))
            if not row.goes_on_with(draw.position, drawn[-1].token_id):
                break
        return RowResult(tuple(drawn))
