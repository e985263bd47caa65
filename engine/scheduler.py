"""Who computes what in the next step, and what becomes of its outcome. Pure: no device, no clock.

There is no prefill phase and no decode phase. Each sequence has known tokens, of which some are
computed; a step lets the computed ones catch up, within a budget of tokens. That covers chunked
prefill, decode and the recomputation after a preemption.

    add -> waiting -> running -> finished          schedule() reserves pages, all or nothing
               ^         |                         update()   takes the results of that step
               +---------+ preempted               rollback() gives back what it reserved

Rules: the waiting are admitted in order of age. Pages are reserved in order of age; where they run
out the youngest sequence gives all of its pages back, never for a younger one. So the oldest always
goes on, and every request ends. While a step runs its pages stay held, whatever is aborted.
"""

from bisect import insort
from collections.abc import Iterable, Iterator

from engine.config import EngineConfig
from engine.engine_stats import EngineLimits
from engine.errors import Overloaded
from engine.page_pool import PagePool
from engine.page_table import PageTable
from engine.proposer import Ask, Draft, SequenceId
from engine.request import Request
from engine.request_check import check_request
from engine.scheduler_counters import SchedulerCounters
from engine.sequence import Sequence
from engine.speculation import Speculation
from engine.step_batch import Drawn, Row, RowResult, StepBatch, StepResult
from engine.token_budget import share_budget
from engine.token_event import FinishReason, TokenEvent, TokenLogprob

WATERMARK_SHARE = 100  # one page in so many stays free at admission, for the running to grow into


class Scheduler:
    """The mutable state is the two lists, both oldest first, and the sequences of the open step."""

    def __init__(
        self,
        config: EngineConfig,
        limits: EngineLimits,
        eos_token_ids: frozenset[int],
        pool: PagePool,
    ) -> None:
        self.pool = pool
        self.limits = limits
        self.counters = SchedulerCounters()
        self.speculation = Speculation(config.speculation, limits)
        self._config = config
        self._eos_token_ids = eos_token_ids
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._in_step: list[Sequence] = []  # in the order of the batch's rows
        self._num_added = 0
        if limits.max_model_len > pool.num_pages * pool.page_size:
            raise ValueError(f"{pool.num_pages} pages cannot hold {limits.max_model_len} tokens")

    @property
    def running(self) -> tuple[Sequence, ...]:
        return tuple(self._running)

    @property
    def waiting(self) -> tuple[Sequence, ...]:
        return tuple(self._waiting)

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    def add(self, request: Request) -> None:
        """Queue a request. Raises InvalidRequest, PromptTooLong or Overloaded, having changed nothing."""
        check_request(request, self.limits)
        queued = sum(not sequence.has_started for sequence in self._waiting)
        if queued >= self._config.max_queue:
            raise Overloaded(f"the queue is full: {queued} requests wait already")
        sequence = Sequence.begin(request, self._num_added, PageTable(self.pool))
        self._num_added += 1
        self._waiting.append(sequence)

    def abort(self, request_id: str, index: int | None = None) -> None:
        """End the sequences of a request, or one of them, without an event. Unknown ids are ignored."""
        for sequence in [*self._waiting, *self._running]:
            if sequence.request.request_id != request_id:
                continue
            sequence.indexes = [i for i in sequence.indexes if index is not None and i != index]
            if not sequence.indexes and sequence not in self._in_step:
                self._retire(sequence)

    def asks(self) -> tuple[Ask, ...]:
        """The drafts that are worth their cost in the next step."""
        budget = self._config.max_num_batched_tokens
        return self.speculation.asks(self._running, budget, self.pool)

    def live(self) -> frozenset[SequenceId]:
        """Every sequence that has begun to generate and not ended."""
        begun = (s for s in [*self._waiting, *self._running] if s.num_generated_tokens)
        return frozenset(sequence.sequence_id for sequence in begun)

    def schedule(self, drafts: Iterable[Draft] = ()) -> StepBatch | None:
        """Reserve the pages of the next step and plan it; None where nothing can be computed.

        Drafts take what is left when everybody else has what it needs; stale ones are dropped.
        """
        assert not self._in_step, "the step before was neither updated nor rolled back"
        self._admit()
        for sequence, share in self._share_tokens():
            if sequence in self._running and self._reserve(sequence, share):
                self._in_step.append(sequence)
        if not self._in_step:
            return None
        budget = self._config.max_num_batched_tokens
        self.speculation.reserve(drafts, self._in_step, budget, self.pool)
        rows = [self._row(sequence) for sequence in self._in_step]
        copies = [s.reservation.copy for s in self._in_step if s.reservation and s.reservation.copy]
        started = tuple(s.request.request_id for s in self._in_step if not s.has_started)
        return StepBatch(tuple(rows), tuple(copies), self.pool.num_touched, started)

    def update(self, batch: StepBatch, result: StepResult) -> list[TokenEvent]:
        """Take the outcome of the step that `schedule` planned last."""
        assert len(result.rows) == len(batch.rows) == len(self._in_step)
        sequences, self._in_step = self._in_step, []
        self.counters.page_copies += len(batch.page_copies)
        events: list[TokenEvent] = []
        for sequence, row, outcome in zip(sequences, batch.rows, result.rows, strict=True):
            events += self._keep(sequence, outcome)
            events += self._advance(sequence, row, outcome)
        return events

    def rollback(self) -> tuple[Sequence, ...]:
        """Give back exactly what the open step reserved; its sequences are as they were before."""
        sequences, self._in_step = self._in_step, []
        for sequence in reversed(sequences):
            assert sequence.reservation
            sequence.table.undo(sequence.reservation)
            sequence.reservation, sequence.drafts = None, ()
        for sequence in sequences:
            if not sequence.indexes:
                self._retire(sequence)
        return tuple(sequence for sequence in sequences if sequence.indexes)

    def fail(self, error: str) -> list[TokenEvent]:
        """The open step failed: roll it back and end its sequences with an error."""
        events: list[TokenEvent] = []
        for sequence in self.rollback():
            events += _error_events(sequence, error)
            self._retire(sequence)
        return events

    def fail_all(self, error: str) -> list[TokenEvent]:
        """End every sequence with an error. A step must not be open."""
        assert not self._in_step
        events: list[TokenEvent] = []
        for sequence in [*self._waiting, *self._running]:
            events += _error_events(sequence, error)
            self._retire(sequence)
        return events

    def page_holders(self) -> Iterator[int]:
        """Every page id once for each sequence, and each open copy, that holds it."""
        for sequence in [*self._waiting, *self._running]:
            yield from sequence.table.page_ids
            if sequence.reservation and sequence.reservation.copy:
                yield sequence.reservation.copy.source

    def check(self) -> None:
        """Raise AssertionError unless the pool's law and the scheduler's own hold."""
        self.pool.check(self.page_holders())
        assert all(not sequence.table.page_ids for sequence in self._waiting)
        assert self._waiting == sorted(self._waiting, key=lambda s: s.age)
        assert self._running == sorted(self._running, key=lambda s: s.age)
        assert self._num_slots_taken() <= self._config.max_num_seqs
        if not self._in_step:
            assert all(s.table.context_len == s.num_computed_tokens for s in self._running)

    # --- admission ---

    def _admit(self) -> None:
        while self._waiting and self._has_room_for(self._waiting[0]):
            sequence = self._waiting.pop(0)
            insort(self._running, sequence, key=lambda s: s.age)
            if self._may_share(sequence) and not sequence.num_preemptions:
                self.counters.prefix_query_tokens += sequence.num_prompt_tokens
            self._adopt_cached(sequence)

    def _has_room_for(self, sequence: Sequence) -> bool:
        """A free slot, and pages for all its known tokens beside those promised to the running."""
        if self._num_slots_taken() + len(sequence.indexes) > self._config.max_num_seqs:
            return False
        if not self._running:
            return True
        found = self._find_cached(sequence)
        revived = sum(self.pool.is_cached(page) for page in found)
        needed = self._pages_missing(sequence) - len(found) + revived
        promised = sum(map(self._pages_missing, self._running))
        watermark = self.pool.num_pages // WATERMARK_SHARE
        return needed + promised + watermark <= self.pool.num_available

    def _num_slots_taken(self) -> int:
        return sum(len(sequence.indexes) for sequence in self._running)

    def _pages_missing(self, sequence: Sequence) -> int:
        """Pages still to be taken for every known token and the one after, and for the forks to be."""
        ahead = len(sequence.token_ids) + 1 - sequence.table.context_len
        return sequence.table.pages_needed(ahead) + len(sequence.indexes) - 1

    # --- sharing pages and tokens ---

    def _may_share(self, sequence: Sequence) -> bool:
        """True where pages that others computed will do; a prompt to be scored must be computed."""
        return self._config.prefix_cache and not sequence.has_prompt_to_score

    def _find_cached(self, sequence: Sequence) -> list[int]:
        """Computed pages that go on with this sequence, its last token left to be computed."""
        if not self._may_share(sequence):
            return []
        if sequence.num_uncomputed_tokens <= self.pool.page_size:
            return []
        return sequence.table.next_cached(sequence.root, sequence.token_ids[:-1])

    def _adopt_cached(self, sequence: Sequence) -> None:
        pages = self._find_cached(sequence)
        if not pages:
            return
        sequence.table.adopt(pages)
        sequence.num_computed_tokens = sequence.table.context_len
        if not sequence.num_preemptions:
            hit = len(pages) * self.pool.page_size
            sequence.num_cached_tokens += hit
            self.counters.prefix_hit_tokens += hit

    def _share_tokens(self) -> list[tuple[Sequence, int]]:
        ready: list[Sequence] = []
        for sequence in self._running:
            self._adopt_cached(sequence)
            if not self._awaits_twin(sequence, ready):
                ready.append(sequence)
        needs = [sequence.num_uncomputed_tokens for sequence in ready]
        shares = share_budget(self._config.max_num_batched_tokens, needs)
        return [(s, share) for s, share in zip(ready, shares, strict=True) if share]

    def _awaits_twin(self, sequence: Sequence, older: list[Sequence]) -> bool:
        """True where an older sequence computes the very page that this one needs next.

        It is cheaper to wait for that page than to compute it twice.
        """
        if not self._may_share(sequence):
            return False
        start = sequence.num_computed_tokens
        stop = start + self.pool.page_size
        if stop >= len(sequence.token_ids):
            return False
        return any(
            start <= other.num_computed_tokens < stop <= len(other.token_ids)
            and other.root == sequence.root
            and other.token_ids[start:stop] == sequence.token_ids[start:stop]
            and other.table.page_ids[: start // self.pool.page_size] == sequence.table.page_ids
            for other in older
        )

    def _reserve(self, sequence: Sequence, share: int) -> bool:
        """Reserve pages for up to `share` tokens; False where not one token finds room."""
        while True:
            fits = min(share, sequence.table.tokens_that_fit(self.pool.num_available))
            if fits:
                sequence.reservation = sequence.table.append(fits)
                return True
            victim = self._youngest_holder()
            if victim is None or victim.age <= sequence.age:
                return False
            self._preempt(victim)

    def _youngest_holder(self) -> Sequence | None:
        holders = (s for s in reversed(self._running) if s.table.page_ids and not s.reservation)
        return next(holders, None)

    def _preempt(self, sequence: Sequence) -> None:
        sequence.forget_computed()
        self._running.remove(sequence)
        insort(self._waiting, sequence, key=lambda s: s.age)
        self.counters.preemptions += 1

    def _row(self, sequence: Sequence) -> Row:
        start, stop = sequence.num_computed_tokens, sequence.table.context_len
        is_last = stop >= len(sequence.token_ids)  # drafts stand behind the known tokens
        return Row(
            request_id=sequence.request.request_id,
            token_ids=(*sequence.token_ids[start:stop], *sequence.drafts),
            start=start,
            page_ids=tuple(sequence.table.page_ids),
            slots=tuple(sequence.table.slots(start, stop)),
            draws=sequence.draws(self._eos_token_ids) if is_last else (),
            targets=sequence.targets(start, stop),
            num_alternatives=sequence.request.sampling.prompt_logprobs or 0,
        )

    # --- taking the outcome ---

    def _keep(self, sequence: Sequence, outcome: RowResult) -> list[TokenEvent]:
        """Book what was computed; the events of the drafts that were accepted."""
        assert sequence.reservation
        if not sequence.has_started:
            sequence.has_started = True
            self.counters.prompt_tokens += sequence.num_prompt_tokens
        sequence.table.keep(sequence.reservation)
        sequence.reservation = None
        events = self._settle_drafts(sequence, outcome) if sequence.drafts else []
        sequence.num_computed_tokens = sequence.table.context_len
        sequence.prompt_logprobs += outcome.scores
        if self._config.prefix_cache:
            sequence.table.register_computed(sequence.root, sequence.token_ids)
        return events

    def _settle_drafts(self, sequence: Sequence, outcome: RowResult) -> list[TokenEvent]:
        is_live = bool(sequence.indexes)
        accepted = sequence.count_accepted(outcome.drawn, self._eos_token_ids) if is_live else 0
        self.speculation.settle(sequence, accepted)
        return [self._extend(sequence, drawn) for drawn in outcome.drawn[:accepted]]

    def _advance(self, sequence: Sequence, row: Row, outcome: RowResult) -> list[TokenEvent]:
        """Take the newest token of each index, or of the one, whose draw comes after all known."""
        if not sequence.indexes:
            self._retire(sequence)
            return []
        if sequence.num_uncomputed_tokens:
            return []
        if not row.draws:
            return self._finish_scoring(sequence)
        drawn = {
            draw.index: drawn
            for draw, drawn in zip(row.draws, outcome.drawn, strict=False)
            if draw.position == len(sequence.token_ids)
        }
        children = [sequence.fork(index) for index in sequence.indexes[1:]]
        for child in children:
            insort(self._running, child, key=lambda s: s.age)
        return [self._extend(s, drawn[s.indexes[0]]) for s in [sequence, *children]]

    def _finish_scoring(self, sequence: Sequence) -> list[TokenEvent]:
        self._retire(sequence)
        return [
            TokenEvent(
                sequence.request.request_id,
                index,
                prompt_logprobs=_prompt_logprobs(sequence),
                cached_tokens=sequence.num_cached_tokens,
                finish_reason=FinishReason.LENGTH,
            )
            for index in sequence.indexes
        ]

    def _extend(self, sequence: Sequence, drawn: Drawn) -> TokenEvent:
        """Append the drawn token, or end this sequence alone where drawing it failed."""
        is_first = sequence.num_generated_tokens == 0
        reason: FinishReason | None = FinishReason.ERROR
        if drawn.token_id is not None:
            sequence.token_ids.append(drawn.token_id)
            self.counters.generated_tokens += 1
            reason = sequence.finish_reason(self._eos_token_ids, self.limits.max_model_len)
        if reason:
            self._retire(sequence)
        return TokenEvent(
            request_id=sequence.request.request_id,
            index=sequence.indexes[0],
            token_id=drawn.token_id,
            logprob=drawn.logprob,
            prompt_logprobs=_prompt_logprobs(sequence) if is_first else None,
            cached_tokens=sequence.num_cached_tokens,
            finish_reason=reason,
            error=drawn.error,
        )

    def _retire(self, sequence: Sequence) -> None:
        sequence.table.release()
        (self._running if sequence in self._running else self._waiting).remove(sequence)


def _prompt_logprobs(sequence: Sequence) -> tuple[TokenLogprob | None, ...] | None:
    wanted = sequence.request.sampling.prompt_logprobs is not None
    return tuple(sequence.prompt_logprobs) if wanted else None


def _error_events(sequence: Sequence, error: str) -> list[TokenEvent]:
    request_id = sequence.request.request_id
    return [
        TokenEvent(request_id, index, finish_reason=FinishReason.ERROR, error=error)
        for index in sequence.indexes
    ]
