"""Which sequences are drafted for, how far ahead, and what came of it. Pure: no proposer in here."""

from collections.abc import Collection, Iterable
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

    def asks(self, running: Collection[Sequence], budget: int) -> tuple[Ask, ...]:
        """Drafts that are worth their cost in a step of at most `budget` tokens."""
        if self._silence:
            self._silence -= 1
            return ()
        asked = [sequence for sequence in running if sequence.may_be_drafted]
        if not asked:
            return ()
        lengths = draft_lengths(
            self._load(running, budget),
            [sequence.draft_record for sequence in asked],
            [self._limit(sequence) for sequence in asked],
        )
        return tuple(
            Ask(sequence.sequence_id, sequence.token_ids, length)
            for sequence, length in zip(asked, lengths, strict=True)
            if length
        )

    def reserve(
        self, drafts: Iterable[Draft], in_step: Collection[Sequence], budget: int, pool: PagePool
    ) -> None:
        """Let drafts take what is left of a step in which everybody else has what it needs.

        Nobody is preempted and no cached page is evicted for a guess. A draft is stale, and dropped,
        where its sequence has ended or gone on meanwhile.
        """
        by_id = {draft.sequence_id: draft for draft in drafts}
        if not by_id:
            return
        left = budget - sum(s.reservation.num_tokens for s in in_step if s.reservation)
        for sequence in in_step:
            draft = by_id.get(sequence.sequence_id)
            if draft and sequence.may_be_drafted and draft.num_known == len(sequence.token_ids):
                room = min(left, sequence.draft_room(self._limits.max_model_len))
                sequence.reserve_drafts(self._possible(draft)[:room], pool.num_free)
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

    def _limit(self, sequence: Sequence) -> int:
        return min(self._max_draft_tokens, sequence.draft_room(self._limits.max_model_len))

    def _possible(self, draft: Draft) -> tuple[int, ...]:
        """The drafted tokens up to the first that is none of the vocabulary."""
        size = self._limits.vocab_size
        return tuple(takewhile(lambda token_id: 0 <= token_id < size, draft.token_ids))
