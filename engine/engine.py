"""The engine without a clock or a loop: schedule, run, update.

`step` does the three in turn. `EngineLoop` calls them one by one, so that `compute` can run on the
device's thread while everything else stays on the event loop.
"""

from dataclasses import dataclass
from typing import Protocol

from engine.engine_stats import EngineLimits, EngineStats, StorageStats
from engine.engine_view import EngineView, take_view
from engine.pool_snapshot import PoolSnapshot, count_unused_tail_slots, take_snapshot
from engine.proposer import Draft, DraftRound, Proposer
from engine.request import Request
from engine.scheduler import Scheduler
from engine.step_batch import StepBatch, StepResult
from engine.token_event import TokenEvent


@dataclass(frozen=True, slots=True)
class StepFailure:
    """The forward pass raised; `error` is what its requests are told, `cause` is for the log."""

    error: str
    cause: Exception


@dataclass(frozen=True, slots=True)
class Proposal:
    """The drafts of one round; where the proposer raised there are none, and `fault` is for the log."""

    drafts: tuple[Draft, ...] = ()
    fault: Exception | None = None


NOTHING_PROPOSED = Proposal()


class Runner(Protocol):
    """What computes a step: `ModelRunner`, or a fake in tests."""

    def run(self, batch: StepBatch) -> StepResult: ...

    def storage_stats(self) -> StorageStats: ...


class Engine:
    """Without a proposer nothing is drafted."""

    def __init__(
        self, scheduler: Scheduler, runner: Runner, proposer: Proposer | None = None
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._proposer = proposer

    @property
    def limits(self) -> EngineLimits:
        return self._scheduler.limits

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work

    def add(self, request: Request) -> None:
        """Raises InvalidRequest, PromptTooLong or Overloaded, having changed nothing."""
        self._scheduler.add(request)

    def abort(self, request_id: str, index: int | None = None) -> None:
        self._scheduler.abort(request_id, index)

    def step(self) -> list[TokenEvent]:
        """One whole step; empty where there is nothing to do."""
        drafting = self.drafting()
        batch = self.plan(self.propose(drafting) if drafting else NOTHING_PROPOSED)
        return self.finish(batch, self.compute(batch)) if batch else []

    def drafting(self) -> DraftRound | None:
        """What the next step would have drafted; None where drafts are not worth their cost."""
        asks = self._scheduler.asks() if self._proposer else ()
        return DraftRound(asks, self._scheduler.live()) if asks else None

    @property
    def drafts_on_device(self) -> bool:
        """Whether `propose` belongs on the device's thread; else it takes no time worth a thread."""
        return self._proposer is not None and self._proposer.needs_device

    def propose(self, drafting: DraftRound) -> Proposal:
        """Touches nothing of the scheduler, and never raises."""
        assert self._proposer
        try:
            answers = self._proposer.propose(drafting)
            return Proposal(
                tuple(
                    Draft(ask.sequence_id, len(ask.token_ids), tuple(answer))
                    for ask, answer in zip(drafting.asks, answers, strict=True)
                    if answer
                )
            )
        except Exception as fault:  # noqa: BLE001 - whatever goes wrong with a guess, nobody needs it
            return Proposal(fault=fault)

    def plan(self, proposal: Proposal = NOTHING_PROPOSED) -> StepBatch | None:
        if proposal.fault:
            self._scheduler.speculation.proposer_failed()
        elif proposal.drafts:
            self._scheduler.speculation.proposer_answered()
        return self._scheduler.schedule(proposal.drafts)

    def measured(self, num_tokens: int, seconds: float) -> None:
        """A whole step, drafting included, took so long: later drafts are weighed against it."""
        self._scheduler.speculation.cost.observe(num_tokens, seconds)

    def compute(self, batch: StepBatch) -> StepResult | StepFailure:
        """Run on the device; touches nothing of the scheduler."""
        try:
            return self._runner.run(batch)
        except Exception as cause:  # noqa: BLE001 - whatever the device raises ends this step only
            return StepFailure("the engine failed while it computed this request", cause)

    def finish(self, batch: StepBatch, outcome: StepResult | StepFailure) -> list[TokenEvent]:
        if isinstance(outcome, StepFailure):
            return self._scheduler.fail(outcome.error)
        return self._scheduler.update(batch, outcome)

    def fail_all(self, error: str) -> list[TokenEvent]:
        """End everything with an error; no step may be open."""
        return self._scheduler.fail_all(error)

    def check(self) -> None:
        """Raise AssertionError unless every law of pages and queues holds."""
        self._scheduler.check()

    def snapshot(self) -> PoolSnapshot:
        return take_snapshot(self._scheduler.pool, self._scheduler.running)

    def view(self) -> EngineView:
        return take_view(self._scheduler.pool, self._scheduler.running, self._scheduler.waiting)

    def stats(self) -> EngineStats:
        scheduler, storage = self._scheduler, self._runner.storage_stats()
        pool, counters = scheduler.pool, scheduler.counters
        return EngineStats(
            pages_free=pool.num_free,
            pages_used=pool.num_used,
            pages_cached=pool.num_cached,
            page_capacity=storage.page_capacity,
            page_size=pool.page_size,
            bytes_per_page=storage.bytes_per_page,
            unused_tail_slots=count_unused_tail_slots(scheduler.running),
            requests_running=len(scheduler.running),
            requests_waiting=len(scheduler.waiting),
            pool_growths=storage.num_growths,
            kv_copied=storage.copied,
            page_copies=counters.page_copies,
            preemptions=counters.preemptions,
            evictions=pool.num_evictions,
            prefix_query_tokens=counters.prefix_query_tokens,
            prefix_hit_tokens=counters.prefix_hit_tokens,
            prompt_tokens=counters.prompt_tokens,
            generated_tokens=counters.generated_tokens,
            drafts=scheduler.speculation.counters.stats(),
        )
