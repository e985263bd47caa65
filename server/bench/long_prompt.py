"""How long streams stand still when a long prompt arrives beside them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from server.bench.client import Prober
from server.bench.errors import RequestFailed
from server.bench.load import PlannedRequest
from server.bench.measured import Measured
from server.bench.target import Target

SETTLED = 4  # chunks each stream has had when the prompts of all are surely computed
STEADY = 20  # chunks each stream has after that when the long prompt is sent
AFTER = 2  # chunks each stream gets after it: the gap over its end is whole then


@dataclass(frozen=True, slots=True)
class Stall:
    """In seconds: the median gap before the long prompt, the worst one while it was computed."""

    steady_gap: float
    worst_gap: float
    long_prompt: Measured


def stall_of(arrivals: Sequence[Sequence[float]], long_prompt: Measured) -> Stall:
    """`arrivals` has the times of one stream each, from the moment at which all had settled."""
    gaps = [gap for times in arrivals for gap in pairwise(times)]
    sent, answered = long_prompt.started, long_prompt.started + long_prompt.ttft
    steady = [later - earlier for earlier, later in gaps if later <= sent]
    beside = [later - earlier for earlier, later in gaps if later > sent and earlier < answered]
    return Stall(median(steady), max(beside), long_prompt)


async def measure_stall(
    prober: Prober,
    target: Target,
    decoders: Sequence[PlannedRequest],
    long_prompt: PlannedRequest,
) -> Stall:
    """Raises RequestFailed, also where a stream ends before the long prompt is answered."""
    try:
        async with asyncio.timeout(prober.timeout):
            async with _streaming(prober, target, decoders) as streams:
                await streams.until_each_has(SETTLED)
                settled = prober.clock()
                await streams.until_each_has(STEADY, since=settled)
                measured = await prober.measure(target, long_prompt)
                if measured.failure:
                    raise measured.failure
                await streams.until_each_has(AFTER, since=prober.clock())
    except TimeoutError as error:
        raise RequestFailed("timeout", f"not done in {prober.timeout:g} seconds") from error
    arrivals = [[time for time in times if time >= settled] for times in streams.arrivals]
    return stall_of(arrivals, measured)


class _Streams:
    """Answers that are being read; whoever waits is woken at each chunk."""

    def __init__(self, count: int) -> None:
        self.arrivals: tuple[list[float], ...] = tuple([] for _ in range(count))
        self._grown = asyncio.Event()

    async def until_each_has(self, chunks: int, since: float = 0.0) -> None:
        while any(sum(time > since for time in times) < chunks for times in self.arrivals):
            self._grown.clear()
            await self._grown.wait()

    async def read(
        self, prober: Prober, target: Target, request: PlannedRequest, index: int
    ) -> None:
        async with aclosing(prober.stream(target, request)) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    self.arrivals[index].append(prober.clock())
                    self._grown.set()
        raise RequestFailed("too short", "a stream ended before the long prompt was answered")


@asynccontextmanager
async def _streaming(
    prober: Prober, target: Target, requests: Sequence[PlannedRequest]
) -> AsyncIterator[_Streams]:
    """Streams that are left where the block ends. The first failure of one ends the block."""
    streams = _Streams(len(requests))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(streams.read(prober, target, request, index))
                for index, request in enumerate(requests)
            ]
            yield streams
            for task in tasks:
                task.cancel()
    except ExceptionGroup as failures:
        raise _first(failures) from failures


def _first(failure: Exception) -> Exception:
    """The failure itself, out of the groups around it."""
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    return failure
