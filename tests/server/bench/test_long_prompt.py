"""How long streams stand still: as arithmetic, and against a server that a test holds still."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count

import httpx2
import pytest

from server.bench.client import Prober, open_client
from server.bench.errors import RequestFailed
from server.bench.load import PlannedRequest
from server.bench.long_prompt import Stall, measure_stall, stall_of
from server.bench.measured import Measured
from server.bench.target import Target
from tests.support.fake_openai import event, text_event

TARGET = Target("http://server", "m")
SHORT = PlannedRequest("short", 1000)
LONG = PlannedRequest("long", 1)
DONE = b"data: [DONE]\n\n"


def test_the_worst_gap_is_one_that_overlaps_the_long_prompt() -> None:
    long_prompt = Measured(10.0, 21.0, (20.0,))
    stall = stall_of([[6, 7, 8, 9, 15, 19, 50, 80], [7, 8.5, 9.5, 22, 23]], long_prompt)
    assert stall.steady_gap == 1
    assert stall.worst_gap == 31  # from 19 to 50; from 50 to 80 the long prompt was answered


def test_a_gap_that_began_before_the_long_prompt_and_ended_in_it_counts() -> None:
    assert stall_of([[1, 2, 3, 9]], Measured(4.0, 6.0, (5.0,))).worst_gap == 6


class Stream(httpx2.AsyncByteStream):
    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events

    async def aclose(self) -> None:
        pass


class Server:
    """Streams go on until they are left; the clock is the number of times it was read."""

    def __init__(self, chunks: int | None = None, *, refuses: bool = False, bunch: int = 1) -> None:
        self.left = 0
        self._bunch = bunch
        self._chunks = chunks
        self._refuses = refuses
        self._ticks = count()

    async def stall(self, decoders: int = 3) -> Stall:
        async with open_client(httpx2.MockTransport(self._answer)) as client:
            prober = Prober(client, lambda: float(next(self._ticks)), 60)
            return await measure_stall(prober, TARGET, [SHORT] * decoders, LONG)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        is_long = json.loads(request.content)["prompt"] == LONG.prompt
        if is_long and self._refuses:
            return httpx2.Response(400, json={"error": {"message": "too long"}})
        events = self._once() if is_long else self._on_and_on()
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Stream(events))

    async def _once(self) -> AsyncIterator[bytes]:
        yield text_event("a") + DONE

    async def _on_and_on(self) -> AsyncIterator[bytes]:
        sent = 0
        try:
            while self._chunks is None or sent < self._chunks:
                yield text_event("a") * self._bunch
                sent += self._bunch
                await asyncio.sleep(0)  # the other streams' turn
            yield event({"choices": [{"finish_reason": "length"}]}) + DONE
        finally:
            self.left += self._chunks is None


async def test_streams_run_before_during_and_after_the_long_prompt_and_are_left_then() -> None:
    server = Server()
    stall = await server.stall()
    assert stall.long_prompt.failure is None
    assert 0 < stall.steady_gap <= stall.worst_gap
    assert server.left == 3


async def test_a_refused_long_prompt_is_the_failure_and_streams_are_left() -> None:
    server = Server(refuses=True)
    with pytest.raises(RequestFailed, match="http 400: too long"):
        await server.stall()
    assert server.left == 3


async def test_streams_whose_chunks_come_in_bunches_are_measured() -> None:
    stall = await Server(bunch=30).stall()
    assert 0 < stall.steady_gap <= stall.worst_gap


@pytest.mark.parametrize("chunks", [2, 10])
async def test_streams_that_end_too_soon_are_a_failure(chunks: int) -> None:
    with pytest.raises(RequestFailed, match="too short: a stream ended"):
        await Server(chunks).stall()
