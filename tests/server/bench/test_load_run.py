"""Who sends when, in memory."""

import json

import httpx2
import pytest

from server.bench.client import Prober, open_client
from server.bench.errors import RequestFailed
from server.bench.load import Clients, Load, Pace, Rate, TokenGauge, plan_requests
from server.bench.load_run import measure_gauge, run_load, warm_up
from server.bench.span import Span
from server.bench.target import Target
from tests.support.fake_openai import Json, uncounted_answer, words_answer

TARGET = Target("http://server", "m")
LOAD = Load(7, Span(3, 30), Span(1, 5), seed=2)
SSE = {"content-type": "text/event-stream"}


class Server:
    """Answers at once; a prompt of more than `most` words is refused."""

    def __init__(self, *, most: int = 1000, counts: bool = True) -> None:
        self.bodies: list[Json] = []
        self._most = most
        self._answer = words_answer if counts else uncounted_answer

    def prober(self) -> Prober:
        return Prober(open_client(httpx2.MockTransport(self._respond)), lambda: 1.0, 60)

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        if len(body["prompt"].split()) > self._most:
            return httpx2.Response(400, json={"error": {"message": "too long"}})
        return httpx2.Response(200, headers=SSE, content=self._answer(body) + b"data: [DONE]\n\n")


@pytest.mark.parametrize("pace", [Clients(1), Clients(3), Clients(50), Rate(1e6)])
async def test_every_request_is_sent_once_and_comes_back_in_its_place(pace: Pace) -> None:
    ended: list[None] = []
    server = Server()
    run = await run_load(server.prober(), TARGET, LOAD, pace, lambda: ended.append(None))
    plan = plan_requests(LOAD)
    assert sorted(str(body["prompt"]) for body in server.bodies) == sorted(p.prompt for p in plan)
    assert [r.usage and r.usage.prompt_tokens for r in run.requests] == [
        len(planned.prompt.split()) for planned in plan
    ]
    assert [r.output_tokens for r in run.requests] == [planned.max_tokens for planned in plan]
    assert len(ended) == 7
    assert run.pace == pace


async def test_a_failure_ends_one_request_and_not_the_load() -> None:
    run = await run_load(Server(most=15).prober(), TARGET, LOAD, Clients(2), lambda: None)
    failed = [request.failure is not None for request in run.requests]
    assert failed == [len(planned.prompt.split()) > 15 for planned in plan_requests(LOAD)]
    assert 0 < sum(failed) < 7


async def test_warming_up_sends_so_many_and_stops_at_a_failure() -> None:
    server = Server()
    await warm_up(server.prober(), TARGET, LOAD, 3)
    assert [body["prompt"] for body in server.bodies] == [p.prompt for p in plan_requests(LOAD)[:3]]
    await warm_up(server.prober(), TARGET, LOAD, 100)
    assert len(server.bodies) == 3 + 100  # more than the load has
    with pytest.raises(RequestFailed, match="http 400: too long"):
        await warm_up(Server(most=2).prober(), TARGET, LOAD, 3)


async def test_a_gauge_is_what_the_server_counts() -> None:
    assert await measure_gauge(Server().prober(), TARGET, seed=0) == TokenGauge(1.0, 0.0)
    assert await measure_gauge(Server(counts=False).prober(), TARGET, seed=0) is None
    with pytest.raises(RequestFailed, match="http 400"):
        await measure_gauge(Server(most=30).prober(), TARGET, seed=0)
