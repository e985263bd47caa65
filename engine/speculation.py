"""Which sequences are drafted for, how far ahead, and what came of it. Pure: no proposer in here."""

from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile

from engine.config import SpeculationConfig
from engine.draft_counters import DraftCounters
from engine.draft_length import Load, draft_lengths
from engine.engine_stats import EngineLimits
from engine.page_pool import PagePool
from engine.proposer import Ask, Draft
from engine.sequence import Sequence
from engine.step_cost import StepCost

LONGEST_SILENCE = 1024  # steps without asks, after a proposer that failed again and again


class Speculation:
    """The mutable state is the cost of a step, the counters, and the silence after a failure."""

    def __init__(self, config: SpeculationConfig | None, limits: EngineLimits) -> None:
        self.cost = StepCost()
        self.counters = DraftCounters()
        self._max_draft_tokens = config.max_draft_tokens if config else 0
        self._limits = limits
        self._silence = 0  # steps still to go without asks
        self._next_silence = 1

    def asks(self, running: Collection[Sequence], budget: int, pool: PagePool) -> tuple[Ask, ...]:
        """Drafts that are worth their cost in a step of at most `budget` tokens.

        No more than there are slots for in `pool` once all known tokens have theirs: a draft that
        is computed and finds no room would cost its time and teach nothing.
        """
        if self._silence:
            self._silence -= 1
            return ()
        asked = [sequence for sequence in running if sequence.may_be_drafted]
        left = _pages_left(running, pool)
        if not asked or left < 0:
            return ()
        lengths = draft_lengths(
            self._load(running, budget),
            [sequence.draft_record for sequence in asked],
            [self._limit(sequence, left) for sequence in asked],
        )
        return tuple(
            Ask(sequence.sequence_id, sequence.token_ids, length)
            for sequence, length in _placed(asked, lengths, left)
            if length
        )

    def reserve(
        self, drafts: Iterable[Draft], in_step: Collection[Sequence], budget: int, pool: PagePool
    ) -> None:
        """Let drafts take what is left of a step in which everybody else has what it needs.

        Nobody is preempted for a guess. Cached pages are evicted as for known tokens: a text that
        goes on to its max_tokens takes those pages anyway, and what is rewound is free and taken
        before the next eviction. A draft is stale, and dropped, where its sequence has ended or
        gone on meanwhile.
        """
        by_id = {draft.sequence_id: draft for draft in drafts}
        if not by_id:
            return
        left = budget - sum(s.reservation.num_tokens for s in in_step if s.reservation)
        for sequence in in_step:
            draft = by_id.get(sequence.sequence_id)
            if draft and sequence.may_be_drafted and draft.num_known == len(sequence.token_ids):
                room = min(left, sequence.draft_room(self._limits.max_model_len))
                sequence.reserve_drafts(self._possible(draft)[:room], pool.num_available)
                left -= len(sequence.drafts)

    def settle(self, sequence: Sequence, num_accepted: int) -> None:
        """Keep so many drafts of the step that has ended; rewind and count the others."""
        num_drafted = len(sequence.drafts)
        num_pages = sequence.settle_drafts(num_accepted)
        sequence.draft_record.note(num_drafted, num_accepted)
        self.counters.count(num_drafted, num_accepted, num_pages)

    def proposer_answered(self) -> None:
        self._next_silence = 1

    def proposer_failed(self) -> None:
        """Do without it for some steps, twice as many each time in a row."""
        self.counters.proposer_failures += 1
        self._silence = self._next_silence
        self._next_silence = min(2 * self._next_silence, LONGEST_SILENCE)

    def _load(self, running: Collection[Sequence], budget: int) -> Load:
        needed = min(sum(sequence.num_uncomputed_tokens for sequence in running), budget)
        return Load(needed, budget - needed, self.cost.base)

    def _limit(self, sequence: Sequence, num_pages: int) -> int:
        room = sequence.draft_room(self._limits.max_model_len)
        return min(self._max_draft_tokens, room, sequence.drafts_that_fit(num_pages))

    def _possible(self, draft: Draft) -> tuple[int, ...]:
        """The drafted tokens up to the first that is none of the vocabulary."""
        size = self._limits.vocab_size
        return tuple(takewhile(lambda token_id: 0 <= token_id < size, draft.token_ids))


def _pages_left(running: Iterable[Sequence], pool: PagePool) -> int:
    """Pages that `allocate` can give once every known token has its slot; below 0 where the step
    will preempt somebody."""
    needed = sum(s.table.pages_needed(s.num_uncomputed_tokens) for s in running)
    return pool.num_available - needed


def _placed(
    asked: Iterable[Sequence], lengths: Iterable[int], num_pages: int
) -> Iterator[tuple[Sequence, int]]:
    """Each sequence with its length, cut so that all together, the oldest first, fit `num_pages`."""
    for sequence, length in zip(asked, lengths, strict=True):
        placed = min(length, sequence.drafts_that_fit(num_pages))
        num_pages -= sequence.pages_for_drafts(placed)
        yield sequence, placed
