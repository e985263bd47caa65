"""The asyncio task that owns the engine: admits, plans, awaits the device, hands events out.

Everything but `Engine.compute` runs on the event loop, so no lock is needed. While the device
works on a step, requests are admitted, aborted and streamed.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Protocol

from engine.engine import NOTHING_PROPOSED, Engine, Proposal, StepFailure
from engine.engine_stats import EngineLimits, EngineStats, EngineStatus, StepReport
from engine.engine_view import EngineView
from engine.errors import EngineDead, Overloaded
from engine.pool_snapshot import PoolSnapshot
from engine.request import Request
from engine.step_batch import StepBatch
from engine.token_event import FinishReason, TokenEvent
from engine.token_stream import TokenStream

MAX_FAILURES_IN_A_ROW = 3  # steps that fail one after the other before the engine gives up

log = logging.getLogger(__name__)


class StepObserver(Protocol):
    def step(self, report: StepReport) -> None: ...


class EngineLoop:
    """The mutable state is the open streams, the times they were submitted, and the status.

    `device` runs one call at a time, always on the same thread. `clock` is in seconds.
    """

    def __init__(
        self, engine: Engine, device: Executor, observer: StepObserver, clock: Callable[[], float]
    ) -> None:
        self._engine = engine
        self._device = device
        self._observer = observer
        self._clock = clock
        self._status = EngineStatus.STARTING
        self._streams: dict[str, TokenStream] = {}
        self._submitted: dict[str, float] = {}  # requests that no step has started yet
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._must_end = False
        self._num_failures = 0  # in a row
        self._task: asyncio.Task[None] | None = None

    @property
    def status(self) -> EngineStatus:
        return self._status

    @property
    def limits(self) -> EngineLimits:
        return self._engine.limits

    def stats(self) -> EngineStats:
        return self._engine.stats()

    def snapshot(self) -> PoolSnapshot:
        return self._engine.snapshot()

    def view(self) -> EngineView:
        return self._engine.view()

    def check(self) -> None:
        """Raise AssertionError unless every law of pages and queues holds."""
        self._engine.check()

    def start(self) -> None:
        self._status = EngineStatus.READY
        self._task = asyncio.create_task(self._run(), name="engine loop")

    def submit(self, request: Request) -> TokenStream:
        """Queue a request; its events come from the returned iterator, closing it aborts them.

        Raises InvalidRequest, PromptTooLong, Overloaded or EngineDead, having changed nothing.
        """
        self._refuse_unless_ready()
        if request.request_id in self._streams:
            raise ValueError(f"request id {request.request_id} is in use")
        self._engine.add(request)
        stream = TokenStream(request.sampling.n, lambda: self.abort(request.request_id))
        self._streams[request.request_id] = stream
        self._submitted[request.request_id] = self._clock()
        self._idle.clear()
        self._wake.set()
        return stream

    def abort(self, request_id: str, index: int | None = None) -> None:
        """End a request, or one of its sequences, without an event; unknown ids are ignored."""
        stream = self._streams.get(request_id)
        if stream is None:
            return
        self._engine.abort(request_id, index)
        stream.drop(index)
        if stream.has_ended:
            self._forget(request_id)

    def drain(self) -> None:
        """Admit nothing new; what runs or waits goes on."""
        if self._status is not EngineStatus.DEAD:
            self._status = EngineStatus.DRAINING

    async def stop(self, grace: float) -> None:
        """Drain for at most `grace` seconds, then end what is left with an error."""
        self.drain()
        self._wake.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace)
        self._must_end = True
        self._wake.set()
        await self.wait_ended()

    async def wait_ended(self) -> None:
        """Return when the engine serves no more: it was stopped, or a fault was fatal."""
        if self._task:
            await asyncio.shield(self._task)

    def _refuse_unless_ready(self) -> None:
        match self._status:
            case EngineStatus.STARTING:
                raise Overloaded("the model is loading")
            case EngineStatus.DRAINING:
                raise Overloaded("the server is shutting down")
            case EngineStatus.DEAD:
                raise EngineDead("the engine has stopped")
            case EngineStatus.READY:
                return

    async def _run(self) -> None:
        try:
            while not self._must_end:
                await self._wait_for_work()
                if self._engine.has_work and not self._must_end:
                    await self._step()
            self._deliver(self._engine.fail_all("the server is shutting down"))
        except Exception:
            log.exception("the engine failed for good")
            self._end_streams("the engine has stopped")
        finally:
            self._status = EngineStatus.DEAD
            self._idle.set()

    async def _wait_for_work(self) -> None:
        if self._engine.has_work:
            return
        self._idle.set()
        self._wake.clear()
        if not self._must_end:
            await self._wake.wait()

    async def _step(self) -> None:
        began = self._clock()
        batch = self._engine.plan(await self._propose())
        if batch is None:
            if self._engine.has_work:
                raise RuntimeError("there is work, but nothing of it can be computed")
            return  # everybody left while tokens were drafted
        started = self._clock()
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._device, self._engine.compute, batch)
        self._deliver(self._engine.finish(batch, outcome))
        self._report(batch, started)
        if isinstance(outcome, StepFailure):
            self._count_failure(outcome)
        else:
            self._num_failures = 0
            self._engine.measured(batch.num_tokens, self._clock() - began)

    async def _propose(self) -> Proposal:
        """Drafts for the next step. Whoever leaves meanwhile leaves drafts that nobody looks at."""
        drafting = self._engine.drafting()
        if drafting is None:
            return NOTHING_PROPOSED
        if self._engine.drafts_on_device:
            loop = asyncio.get_running_loop()
            proposal = await loop.run_in_executor(self._device, self._engine.propose, drafting)
        else:
            proposal = self._engine.propose(drafting)
        if proposal.fault:
            log.error("drafting failed; the text goes on without", exc_info=proposal.fault)
        return proposal

    def _report(self, batch: StepBatch, started: float) -> None:
        submitted = [self._submitted.pop(name, None) for name in batch.started]
        queued = tuple(started - time for time in submitted if time is not None)
        self._observer.step(StepReport(self._clock() - started, batch.num_tokens, queued))

    def _count_failure(self, failure: StepFailure) -> None:
        log.error("a step failed", exc_info=failure.cause)
        self._num_failures += 1
        if self._num_failures >= MAX_FAILURES_IN_A_ROW:
            raise EngineDead(f"{self._num_failures} steps failed in a row") from failure.cause

    def _deliver(self, events: list[TokenEvent]) -> None:
        for event in events:
            stream = self._streams[event.request_id]
            stream.put(event)
            if stream.has_ended:
                self._forget(event.request_id)

    def _end_streams(self, error: str) -> None:
        for request_id, stream in list(self._streams.items()):
            for index in sorted(stream.open_indexes):
                stream.put(
                    TokenEvent(request_id, index, finish_reason=FinishReason.ERROR, error=error)
                )
            self._forget(request_id)

    def _forget(self, request_id: str) -> None:
        del self._streams[request_id]
        self._submitted.pop(request_id, None)
