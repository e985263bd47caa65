"""A scheduler under random use: steps that open, end, fail or are taken back, and clients that leave.

The stepper holds every token against the solo run; here are the laws that span sequences.
"""

from collections import Counter
from dataclasses import dataclass

from engine.errors import Overloaded, PromptTooLong
from engine.request import Request
from engine.sequence import Sequence
from engine.step_batch import StepBatch
from tests.support.stepper import Stepper


@dataclass(frozen=True, slots=True)
class Setting:
    num_pages: int
    page_size: int
    max_num_seqs: int
    budget: int
    prefix_cache: bool


class SchedulerOracle:
    """Mutable: the stepper, and the step that is open. `tally` counts what happened."""

    def __init__(self, setting: Setting, tally: Counter[str]) -> None:
        self.setting = setting
        self.tally = tally
        self.open_step: StepBatch | None = None
        self.stepper = Stepper(
            setting.num_pages,
            setting.page_size,
            max_num_seqs=setting.max_num_seqs,
            budget=setting.budget,
            max_queue=6,
            prefix_cache=setting.prefix_cache,
        )

    # --- operations ---

    def add(self, request: Request) -> None:
        try:
            self.stepper.add(request)
        except PromptTooLong:
            assert len(request.prompt_token_ids) >= self.stepper.limits.max_model_len
            self.tally["refused prompts"] += 1
        except Overloaded:
            self.tally["refused by a full queue"] += 1

    def abort(self, pick: int, is_whole: bool) -> None:
        if live := sorted(self.stepper.live):
            request_id, index = live[pick % len(live)]
            self.stepper.abort(request_id, None if is_whole else index)
            self.tally["aborts while a step runs"] += self.open_step is not None

    def plan(self) -> None:
        self.open_step = self.stepper.plan()
        if self.open_step:
            assert self.open_step.num_tokens <= self.setting.budget
            self.tally["steps"] += 1

    def finish(self, failing: int | None) -> None:
        """Take the outcome of the open step; one sequence's draw fails where `failing` picks it."""
        assert self.open_step
        if failing is not None and (live := sorted(self.stepper.live)):
            self.stepper.model.failing = {live[failing % len(live)]}
        self.stepper.finish(self.open_step)
        self.stepper.model.failing = set()
        self.open_step = None

    def rollback(self, is_written: bool) -> None:
        """The open step is taken back; its sequences are as they were before it."""
        assert self.open_step
        if is_written:
            self.stepper.model.write(self.open_step)
        before = [(s, s.num_computed_tokens, list(s.token_ids)) for s in self.sequences()]
        rolled_back = self.stepper.scheduler.rollback()
        gone = {s for s, _, _ in before} - {*self.sequences()}
        assert all(not s.indexes for s in gone)
        assert all(s.indexes for s in rolled_back)
        for sequence, num_computed, token_ids in before:
            assert (sequence.num_computed_tokens, sequence.token_ids) == (num_computed, token_ids)
        self.stepper.scheduler.check()
        self.open_step = None
        self.tally["rollbacks"] += 1

    def fail(self) -> None:
        """The open step fails: its sequences end with the error, all others go on."""
        assert self.open_step
        names = {row.request_id for row in self.open_step.rows}
        events = self.stepper.take(self.stepper.scheduler.fail("the device failed"))
        assert {event.request_id for event in events} <= names
        self.open_step = None
        self.tally["failed steps"] += 1

    def drain(self) -> None:
        """Everybody ends, within as many steps as there are tokens to compute, and some to spare."""
        if self.open_step:
            self.finish(None)
        work = sum(
            len(request.prompt_token_ids) + request.sampling.max_tokens * request.sampling.n
            for request in self.stepper.requests.values()
        )
        self.stepper.run(max_steps=100 + 4 * work)
        assert not self.stepper.live
        assert self.stepper.pool.num_used == 0
        assert self.stepper.pool.num_available == self.setting.num_pages
        self.tally["finished sequences"] += len(self.stepper.ends)
        self.tally["sequences ended by an error"] += len(self.stepper.errors)
        self._tally_counters()

    # --- laws ---

    def sequences(self) -> list[Sequence]:
        scheduler = self.stepper.scheduler
        return [*scheduler.running, *scheduler.waiting]

    def check(self) -> None:
        self.tally["operations"] += 1
        self.stepper.scheduler.check()
        self._check_standing()
        self._check_salts()
        assert self.setting.prefix_cache or self.stepper.pool.num_cached == 0

    def _check_standing(self) -> None:
        """Each live sequence stands in one list once, for the indexes that have yet to end."""
        standing = [(s.request.request_id, i) for s in self.sequences() for i in s.indexes]
        assert len(standing) == len({*standing})
        assert {*standing} == self.stepper.live
        assert all(s.indexes or s.reservation for s in self.sequences())
        assert self.open_step or not any(s.reservation for s in self.sequences())

    def _check_salts(self) -> None:
        salts: dict[int, str] = {}
        for sequence in self.sequences():
            salt = sequence.request.cache_salt
            for page in sequence.table.page_ids:
                assert salts.setdefault(page, salt) == salt, "two salts share a page"

    def _tally_counters(self) -> None:
        counters = self.stepper.scheduler.counters
        self.tally["preemptions"] += counters.preemptions
        self.tally["page copies"] += counters.page_copies
        self.tally["prefix hits"] += counters.prefix_hit_tokens
        self.tally["evictions"] += self.stepper.pool.num_evictions
        assert counters.prefix_hit_tokens <= counters.prefix_query_tokens
