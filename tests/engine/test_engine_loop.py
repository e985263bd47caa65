import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import count

import pytest

from engine.config import EngineConfig, SpeculationConfig
from engine.engine import Engine
from engine.engine_loop import MAX_FAILURES_IN_A_ROW, EngineLoop
from engine.engine_stats import EngineLimits, EngineStatus, StepReport
from engine.errors import EngineDead, InvalidRequest, Overloaded
from engine.page_pool import PagePool
from engine.proposer import DraftRound, Proposer
from engine.request import Request, SamplingParams
from engine.scheduler import Scheduler
from engine.step_batch import StepBatch
from engine.token_event import FinishReason, TokenEvent
from engine.token_stream import TokenStream
from tests.support.fake_runner import VOCAB_SIZE, FakeRunner, solo_tokens

PAGE_SIZE = 4


class Reports:
    def __init__(self) -> None:
        self.all: list[StepReport] = []

    def step(self, report: StepReport) -> None:
        self.all.append(report)


class Gate:
    """Holds the device thread until the test lets steps through; `seen` is set by each step."""

    def __init__(self) -> None:
        self._permits = threading.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        self.seen = asyncio.Event()

    def __call__(self, _batch: StepBatch) -> None:
        self._loop.call_soon_threadsafe(self.seen.set)
        self._permits.acquire()

    def let(self, steps: int) -> None:
        self._permits.release(steps)


@asynccontextmanager
async def running(  # noqa: PLR0913 - every knob of a scenario
    before_step: Callable[[StepBatch], None] = lambda _: None,
    *,
    num_pages: int = 32,
    max_queue: int = 8,
    observer: Reports | None = None,
    proposer: Proposer | None = None,
    device: ThreadPoolExecutor | None = None,
) -> AsyncIterator[EngineLoop]:
    """An engine loop over the fake runner; at the end every page has come back."""
    config = EngineConfig(
        0,
        page_size=PAGE_SIZE,
        max_num_seqs=4,
        max_num_batched_tokens=16,
        max_queue=max_queue,
        speculation=SpeculationConfig(4) if proposer else None,
    )
    limits = EngineLimits(num_pages * PAGE_SIZE, config.max_num_seqs, VOCAB_SIZE)
    pool = PagePool(num_pages, PAGE_SIZE)
    engine = Engine(
        Scheduler(config, limits, frozenset(), pool),
        FakeRunner(PAGE_SIZE, before_step),
        proposer,
    )
    ticks = count()
    with device or ThreadPoolExecutor(1) as thread:
        loop = EngineLoop(engine, thread, observer or Reports(), lambda: float(next(ticks)))
        loop.start()
        yield loop
        await loop.stop(grace=0)
        loop.check()
        assert pool.num_used == 0


def request(name: str, *prompt: int, max_tokens: int = 5, n: int = 1) -> Request:
    return Request(name, prompt or (1, 2, 3), SamplingParams(max_tokens, n=n))


async def collect(stream: TokenStream) -> list[TokenEvent]:
    return [event async for event in stream]


def tokens(events: list[TokenEvent], index: int = 0) -> list[int | None]:
    return [event.token_id for event in events if event.index == index]


def fail_on(steps: set[int]) -> Callable[[StepBatch], None]:
    numbers = count(1)

    def before_step(_batch: StepBatch) -> None:
        if next(numbers) in steps:
            raise MemoryError("no memory left on the device")

    return before_step


async def test_a_request_streams_its_tokens_and_ends() -> None:
    async with running() as loop:
        events = await collect(loop.submit(request("a", 5, 6, 7)))
        assert tokens(events) == solo_tokens((5, 6, 7), 5)
        assert [event.finish_reason for event in events] == [None] * 4 + [FinishReason.LENGTH]


async def test_many_requests_at_once_get_their_solo_tokens() -> None:
    async with running() as loop:
        prompts = [(i, *range(i)) for i in range(1, 9)]
        streams = [loop.submit(request(str(p), *p)) for p in prompts]
        for prompt, events in zip(
            prompts, await asyncio.gather(*map(collect, streams)), strict=True
        ):
            assert tokens(events) == solo_tokens(prompt, 5)


async def test_n_sequences_come_on_one_stream_that_ends_after_the_last() -> None:
    async with running() as loop:
        events = await collect(loop.submit(request("a", 1, 2, n=3)))
        for index in range(3):
            assert tokens(events, index) == solo_tokens((1, 2), 5, index)
        assert sum(event.finish_reason is not None for event in events) == 3


async def test_the_loop_admits_while_the_device_works() -> None:
    gate = Gate()
    async with running(gate) as loop:
        first = loop.submit(request("a", max_tokens=2))
        await gate.seen.wait()
        second = loop.submit(request("b", 9, max_tokens=1))
        gate.let(100)
        assert tokens(await collect(second)) == solo_tokens((9,), 1)
        assert len(await collect(first)) == 2


async def test_closing_a_stream_frees_its_pages_within_one_step() -> None:
    gate = Gate()
    async with running(gate) as loop:
        stream = loop.submit(request("a", max_tokens=100))
        await gate.seen.wait()
        await stream.aclose()
        assert loop.stats().pages_used > 0  # the step still writes into them
        gate.let(1)
        gate.let(100)
        await collect(loop.submit(request("b", 8)))
        assert loop.stats().pages_used == 0


async def test_closing_a_queued_stream_takes_it_out_of_the_queue() -> None:
    gate = Gate()
    async with running(gate) as loop:
        streams = [loop.submit(request(str(i), i, max_tokens=50)) for i in range(6)]
        await gate.seen.wait()
        assert loop.stats().requests_waiting == 2
        await streams[5].aclose()
        assert loop.stats().requests_waiting == 1
        for stream in streams:
            await stream.aclose()
        gate.let(100)


async def test_closing_twice_or_after_the_end_does_nothing() -> None:
    async with running() as loop:
        stream = loop.submit(request("a"))
        await collect(stream)
        await stream.aclose()
        await stream.aclose()


async def test_one_sequence_of_several_can_be_ended_alone() -> None:
    async with running() as loop:
        stream = loop.submit(request("a", 1, 2, max_tokens=9, n=2))
        events = [await anext(stream)]
        loop.abort("a", 1)
        events += await collect(stream)
        assert tokens(events, 0) == solo_tokens((1, 2), 9)
        assert len(tokens(events, 1)) < 9
        assert all(event.finish_reason is None for event in events if event.index == 1)


async def test_aborting_an_unknown_request_is_ignored() -> None:
    async with running() as loop:
        loop.abort("nobody")


async def test_a_full_queue_refuses_and_keeps_what_it_has() -> None:
    gate = Gate()
    async with running(gate, max_queue=2) as loop:
        running_ones = [loop.submit(request("0", 1))]
        await gate.seen.wait()
        queued = [loop.submit(request(str(i), i)) for i in (1, 2)]
        with pytest.raises(Overloaded, match="the queue is full"):
            loop.submit(request("3", 3))
        gate.let(1000)
        for stream in running_ones + queued:
            assert len(await collect(stream)) == 5


async def test_a_bad_request_is_refused_at_once() -> None:
    async with running() as loop:
        with pytest.raises(InvalidRequest, match="outside the vocabulary"):
            loop.submit(request("a", 9999))
        assert loop.stats().requests_waiting == 0


async def test_a_live_request_id_cannot_be_used_twice() -> None:
    async with running() as loop:
        stream = loop.submit(request("a"))
        with pytest.raises(ValueError, match="in use"):
            loop.submit(request("a"))
        assert len(await collect(stream)) == 5
        assert len(await collect(loop.submit(request("a")))) == 5


async def test_a_failed_step_ends_its_requests_and_the_loop_lives() -> None:
    """Case C12: a fault that happens once."""
    async with running(fail_on({2})) as loop:
        events = await collect(loop.submit(request("a")))
        assert events[-1].finish_reason is FinishReason.ERROR
        assert events[-1].error == "the engine failed while it computed this request"
        assert loop.stats().pages_used == 0
        assert len(await collect(loop.submit(request("b", 4)))) == 5
        assert loop.status is EngineStatus.READY


async def test_steps_that_fail_again_and_again_end_everything() -> None:
    """Case C12: a fault that stays."""
    async with running(fail_on(set(range(1, 100)))) as loop:
        streams = [loop.submit(request(str(i), i)) for i in range(8)]  # 4 run, 4 wait
        for stream in streams:
            assert (await collect(stream))[-1].finish_reason is FinishReason.ERROR
        while loop.status is EngineStatus.READY:  # failures before this one were not enough
            assert (await collect(loop.submit(request("more"))))[-1].error
        await loop.wait_ended()
        with pytest.raises(EngineDead):
            loop.submit(request("late"))


async def test_failures_that_are_not_in_a_row_are_forgiven() -> None:
    every_other = set(range(1, 4 * MAX_FAILURES_IN_A_ROW, 2))
    async with running(fail_on(every_other)) as loop:
        for i in range(2 * MAX_FAILURES_IN_A_ROW):
            await collect(loop.submit(request(str(i), i, max_tokens=1)))
        assert loop.status is EngineStatus.READY


async def test_draining_refuses_the_new_and_finishes_the_old() -> None:
    async with running() as loop:
        stream = loop.submit(request("a"))
        loop.drain()
        with pytest.raises(Overloaded, match="shutting down"):
            loop.submit(request("b"))
        assert len(await collect(stream)) == 5


async def test_stop_ends_what_is_left_after_the_grace_with_an_error() -> None:
    gate = Gate()
    async with running(gate) as loop:
        streams = [loop.submit(request(str(i), i, max_tokens=50)) for i in range(6)]
        await gate.seen.wait()
        stopping = asyncio.create_task(loop.stop(grace=0))
        gate.let(40)  # more than can run before the loop sees that it must end, fewer than needed
        await stopping
        for stream in streams:
            assert (await collect(stream))[-1].error == "the server is shutting down"
        assert loop.status is EngineStatus.DEAD


async def test_stop_returns_as_soon_as_nothing_runs() -> None:
    async with running() as loop:
        stream = loop.submit(request("a"))
        await loop.stop(grace=3600)
        assert len(await collect(stream)) == 5


async def test_every_step_is_reported_with_the_queue_time_of_who_started() -> None:
    reports = Reports()
    async with running(observer=reports) as loop:
        await collect(loop.submit(request("a", 1, 2, 3)))
        assert [report.num_tokens for report in reports.all] == [3, 1, 1, 1, 1]
        assert [len(report.queue_seconds) for report in reports.all] == [1, 0, 0, 0, 0]
        assert reports.all[0].queue_seconds[0] > 0


async def test_a_loop_that_was_not_started_says_it_is_loading() -> None:
    pool = PagePool(4, PAGE_SIZE)
    config = EngineConfig(0, page_size=PAGE_SIZE)
    engine = Engine(
        Scheduler(config, EngineLimits(16, 4, VOCAB_SIZE), frozenset(), pool), FakeRunner(PAGE_SIZE)
    )
    with ThreadPoolExecutor(1) as device:
        loop = EngineLoop(engine, device, Reports(), lambda: 0.0)
        assert loop.status is EngineStatus.STARTING
        with pytest.raises(Overloaded, match="loading"):
            loop.submit(request("a"))


# --- drafts ---


class Knowing:
    """Drafts what the fake runner draws; `before` is called first, on the thread that drafts."""

    def __init__(
        self, before: Callable[[], None] = lambda: None, *, needs_device: bool = True
    ) -> None:
        self._before = before
        self.needs_device = needs_device

    def propose(self, drafting: DraftRound) -> list[tuple[int, ...]]:
        self._before()
        return [tuple(solo_tokens(ask.token_ids, ask.num_tokens)) for ask in drafting.asks]


class CountingThread(ThreadPoolExecutor):
    """Counts the calls that it is given."""

    num_calls = 0

    def submit(self, *call: object, **more: object) -> object:  # type: ignore[override]
        self.num_calls += 1
        return super().submit(*call, **more)  # type: ignore[arg-type]


async def test_drafts_bring_the_same_tokens_in_fewer_steps() -> None:
    reports = Reports()
    async with running(observer=reports, proposer=Knowing()) as loop:
        events = await collect(loop.submit(request("a", max_tokens=30)))
        assert tokens(events) == solo_tokens((1, 2, 3), 30)
        assert len(reports.all) < 20
        assert loop.stats().drafts.rewound_tokens == 0


async def test_without_drafts_a_step_is_one_call_of_the_device() -> None:
    device, reports = CountingThread(1), Reports()
    async with running(observer=reports, device=device) as loop:
        await collect(loop.submit(request("a")))
        assert device.num_calls == len(reports.all) == 5


@pytest.mark.parametrize("needs_device", [True, False])
async def test_only_a_proposer_that_computes_takes_the_devices_time(needs_device: bool) -> None:
    device, reports = CountingThread(1), Reports()
    threads: set[str] = set()
    proposer = Knowing(
        lambda: threads.add(threading.current_thread().name), needs_device=needs_device
    )
    async with running(observer=reports, device=device, proposer=proposer) as loop:
        await collect(loop.submit(request("a", max_tokens=20)))
        assert (device.num_calls > len(reports.all)) == needs_device
    assert (threads == {threading.main_thread().name}) == (not needs_device)


async def test_a_request_that_wants_no_drafts_is_never_drafted_for() -> None:
    async with running(proposer=Knowing()) as loop:
        plain = Request("a", (1, 2, 3), SamplingParams(9), speculative=False)
        assert tokens(await collect(loop.submit(plain))) == solo_tokens((1, 2, 3), 9)
        assert loop.stats().drafts.drafted_tokens == 0


async def test_whoever_leaves_while_tokens_are_drafted_leaves_no_page() -> None:
    """The last one leaves: the drafts find nobody, and the loop waits for new work."""
    started, held = asyncio.Event(), threading.Event()
    here = asyncio.get_running_loop()

    def hold() -> None:
        here.call_soon_threadsafe(started.set)
        held.wait()

    async with running(proposer=Knowing(hold)) as loop:
        stream = loop.submit(request("a", max_tokens=30))
        await started.wait()
        await stream.aclose()
        held.set()
        assert len(await collect(loop.submit(request("b", 9)))) == 5
        assert loop.stats().pages_used == 0


async def test_a_proposer_that_raises_is_logged_and_the_text_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise MemoryError("no memory left on the device")

    async with running(proposer=Knowing(fail)) as loop:
        events = await collect(loop.submit(request("a", max_tokens=12)))
        assert tokens(events) == solo_tokens((1, 2, 3), 12)
        assert loop.status is EngineStatus.READY
        failures = loop.stats().drafts.proposer_failures
    assert failures == sum("drafting failed" in line for line in caplog.messages) > 1
