"""Drafts from a second, smaller model with the same vocabulary. It decides only; a runner computes.

The draft model has pages of its own. For each sequence a table holds the K/V of some of its known
tokens, and of drafts that may have been wrong. So each round first rewinds to what is known:

    the table    k0 k1 k2 k3 d4 d5      the sequence is known as    k0 k1 k2 k3 d4 x5
                             ~~ rewound; x5 is computed, and the first draft follows it
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.page_pool import PagePool
from engine.page_table import PageTable
from engine.proposer import Ask, DraftRound, SequenceId
from engine.request import SamplingParams
from engine.step_batch import Draw, Row, StepBatch, StepResult

GREEDY = SamplingParams(max_tokens=1, temperature=0.0)


class DraftRunner(Protocol):
    """What computes the draft model: a `ModelRunner` of its own."""

    def run(self, batch: StepBatch) -> StepResult: ...


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """In tokens: the longest text of the draft model, the ids it knows, and what it catches up with
    in one round."""

    max_context: int
    vocab_size: int
    catch_up: int


@dataclass(slots=True)
class _DraftText:
    """What the draft model has of one sequence: K/V of `token_ids`, in the pages of `table`.

    The first `num_agreed` of them were known tokens of the sequence, so they stay right.
    """

    table: PageTable
    token_ids: list[int] = field(default_factory=list)
    num_agreed: int = 0

    def rewind_to(self, known: Sequence[int]) -> None:
        """Keep what is known and right; the last known token is always computed (again)."""
        stop = min(len(self.token_ids), len(known) - 1)
        kept = min(self.num_agreed, stop)
        while kept < stop and self.token_ids[kept] == known[kept]:
            kept += 1
        self.table.rewind(len(self.token_ids) - kept)
        del self.token_ids[kept:]
        self.num_agreed = kept


@dataclass(slots=True)
class _Job:
    """One ask on its way: tokens to compute next, drafts so far."""

    ask: Ask
    text: _DraftText
    pending: list[int]
    drafts: list[int] = field(default_factory=list)

    @property
    def wants_draw(self) -> bool:
        """Whether the pending tokens are the last before a draft."""
        known = len(self.ask.token_ids) + len(self.drafts)
        return len(self.text.token_ids) + len(self.pending) == known


class DraftModelProposer:
    """The mutable state is the texts: one for each sequence that was asked for and still lives."""

    needs_device = True

    def __init__(self, runner: DraftRunner, pool: PagePool, limits: DraftLimits) -> None:
        self._runner = runner
        self._pool = pool
        self._limits = limits
        self._texts: dict[SequenceId, _DraftText] = {}

    def propose(self, drafting: DraftRound) -> list[tuple[int, ...]]:
        """See `Proposer`. Raises what the device raises; all texts are forgotten then."""
        self._forget(self._texts.keys() - drafting.live)
        try:
            jobs = self._begin(drafting.asks)
            waiting = jobs
            while waiting := self._run(waiting):
                pass
        except Exception:
            self._forget(list(self._texts))
            raise
        drafts = {job.ask.sequence_id: tuple(job.drafts) for job in jobs}
        return [drafts.get(ask.sequence_id, ()) for ask in drafting.asks]

    def check(self) -> None:
        """Raise AssertionError unless the law of pages holds and every text fills its table."""
        texts = self._texts.values()
        self._pool.check(page for text in texts for page in text.table.page_ids)
        assert all(text.table.context_len == len(text.token_ids) for text in texts)

    def _forget(self, sequence_ids: Iterable[SequenceId]) -> None:
        for sequence_id in sequence_ids:
            self._texts.pop(sequence_id).table.release()

    def _begin(self, asks: Sequence[Ask]) -> list[_Job]:
        """Rewind every text that is asked for, and share what may be caught up with in this round.

        Who misses little comes first. A text for which only part of its tokens may be computed gets
        its drafts in a later round.
        """
        jobs = [job for job in map(self._job, asks) if self._is_within(job)]
        left = self._limits.catch_up
        for job in sorted(jobs, key=lambda job: len(job.pending)):
            del job.pending[left:]
            left -= len(job.pending)
        self._make_room(jobs)
        return [job for job in jobs if job.pending]

    def _is_within(self, job: _Job) -> bool:
        """A model with a larger embedding may draw ids that stand for no token, unknown to this one."""
        longest = len(job.ask.token_ids) + job.ask.num_tokens
        knows_all = max(job.pending) < self._limits.vocab_size
        return longest <= self._limits.max_context and knows_all

    def _job(self, ask: Ask) -> _Job:
        text = self._texts.setdefault(ask.sequence_id, _DraftText(PageTable(self._pool)))
        text.rewind_to(ask.token_ids)
        return _Job(ask, text, list(ask.token_ids[len(text.token_ids) :]))

    def _make_room(self, jobs: Sequence[_Job]) -> None:
        """Where pages run out, texts that nobody asks for give theirs back first."""
        needed = sum(
            job.text.table.pages_needed(len(job.pending) + job.ask.num_tokens) for job in jobs
        )
        if needed > self._pool.num_available:
            self._forget(self._texts.keys() - {job.ask.sequence_id for job in jobs})

    def _run(self, jobs: Sequence[_Job]) -> list[_Job]:
        """Compute what is pending, one row a job, and draw one draft where all is known before it.

        Returns the jobs that go on. A job that finds no room in the pool ends with what it has.
        """
        fitting = [job for job in jobs if self._reserve(job)]
        if not fitting:
            return []
        rows = tuple(_row(job) for job in fitting)
        result = self._runner.run(StepBatch(rows, num_pages=self._pool.num_touched))
        for job, row, outcome in zip(fitting, rows, result.rows, strict=True):
            self._take(job, row, outcome.drawn[0].token_id if outcome.drawn else None)
        return [job for job in fitting if job.pending]

    def _reserve(self, job: _Job) -> bool:
        table = job.text.table
        if table.tokens_that_fit(self._pool.num_available) < len(job.pending):
            return False
        table.keep(table.append(len(job.pending)))
        return True

    def _take(self, job: _Job, row: Row, drawn: int | None) -> None:
        """Book a computed row. A draft that is to be followed by another is computed next."""
        job.text.token_ids += row.token_ids
        job.text.num_agreed = min(len(job.text.token_ids), len(job.ask.token_ids))
        job.pending = []
        if drawn is not None:
            job.drafts.append(drawn)
            if len(job.drafts) < job.ask.num_tokens:
                job.pending = [drawn]


def _row(job: _Job) -> Row:
    start = len(job.text.token_ids)
    stop = start + len(job.pending)
    return Row(
        request_id=f"draft {job.ask.sequence_id.arrival}",
        token_ids=tuple(job.pending),
        start=start,
        page_ids=tuple(job.text.table.page_ids),
        slots=tuple(job.text.table.slots(start, stop)),
        draws=(Draw(GREEDY, 0, stop),) if job.wants_draw else (),
    )
