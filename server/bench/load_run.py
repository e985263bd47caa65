"""A load against one server: who sends when."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from server.bench.client import Prober
from server.bench.load import (
    Clients,
    Load,
    Pace,
    PlannedRequest,
    TokenGauge,
    arrival_times,
    gauge_of,
    plan_requests,
)
from server.bench.measured import Measured
from server.bench.span import Span
from server.bench.target import Target

GAUGE_WORDS = (20, 60)

Progress = Callable[[], object]


@dataclass(frozen=True, slots=True)
class LoadRun:
    """What came of a load. `requests` are in the order of the plan; `seconds` is all of it."""

    pace: Pace
    requests: tuple[Measured, ...]
    counters: Mapping[str, float] = field(default_factory=dict)  # of an Octavo: what was added

    @property
    def seconds(self) -> float:
        return max(r.ended for r in self.requests) - min(r.started for r in self.requests)


async def run_load(
    prober: Prober, target: Target, load: Load, pace: Pace, progress: Progress
) -> LoadRun:
    """`progress` is called at the end of each request."""
    plan = plan_requests(load)
    if isinstance(pace, Clients):
        requests = await _closed_loop(prober, target, plan, pace, progress)
    else:
        times = arrival_times(pace.per_second, len(plan), load.seed)
        requests = await _open_loop(prober, target, plan, times, progress)
    return LoadRun(pace, requests)


async def warm_up(prober: Prober, target: Target, load: Load, count: int) -> None:
    """`count` requests one after the other that nobody counts. Raises RequestFailed."""
    for request in plan_requests(replace(load, num_requests=count)):
        measured = await prober.measure(target, request)
        if measured.failure:
            raise measured.failure


async def measure_gauge(prober: Prober, target: Target, seed: int) -> TokenGauge | None:
    """How the server counts words; None where it does not say. Raises RequestFailed."""
    counts: list[int] = []
    for num_words in GAUGE_WORDS:
        lengths = Span(num_words, num_words)
        (request,) = plan_requests(Load(1, lengths, Span(1, 1), seed=seed))
        measured = await prober.measure(target, request)
        if measured.failure:
            raise measured.failure
        if measured.usage is None:
            return None
        counts.append(measured.usage.prompt_tokens)
    return gauge_of(GAUGE_WORDS[0], counts[0], GAUGE_WORDS[1], counts[1])


async def _closed_loop(
    prober: Prober,
    target: Target,
    plan: tuple[PlannedRequest, ...],
    pace: Clients,
    progress: Progress,
) -> tuple[Measured, ...]:
    measured: dict[int, Measured] = {}

    async def client(requests: Iterator[tuple[int, PlannedRequest]]) -> None:
        for index, request in requests:
            measured[index] = await prober.measure(target, request)
            progress()

    shared = iter(enumerate(plan))
    async with asyncio.TaskGroup() as clients:
        for _ in range(min(pace.count, len(plan))):
            clients.create_task(client(shared))
    return tuple(measured[index] for index in range(len(plan)))


async def _open_loop(
    prober: Prober,
    target: Target,
    plan: tuple[PlannedRequest, ...],
    times: tuple[float, ...],
    progress: Progress,
) -> tuple[Measured, ...]:
    async def arrive(seconds: float, request: PlannedRequest) -> Measured:
        await asyncio.sleep(seconds)
        measured = await prober.measure(target, request)
        progress()
        return measured

    async with asyncio.TaskGroup() as requests:
        tasks = [
            requests.create_task(arrive(seconds, request))
            for seconds, request in zip(times, plan, strict=True)
        ]
    return tuple(task.result() for task in tasks)
