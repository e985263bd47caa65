"""How requests end that do not end by themselves: drain, time limit, queue, faults of our own."""

import asyncio
import json
import logging

import httpx
import pytest

from engine.errors import EngineDead
from server.api.app import active_requests
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer, TokenizerSource
from tests.support.fake_engine import FakeEngine
from tests.support.http_app import (
    MODEL,
    App,
    completion,
    error_of,
    in_memory,
    make_app,
    on_socket,
    read_events,
)
from tests.support.raw_http import PATIENCE
from tests.support.tokenizer_families import family_json


@pytest.fixture
def app(tokenizer: Tokenizer) -> App:
    app = make_app(tokenizer)
    app.engine.pause()
    return app


def post(client: httpx.AsyncClient, **fields: object) -> "asyncio.Task[httpx.Response]":
    return asyncio.create_task(client.post("/v1/completions", json=completion(**fields)))


async def test_running_requests_end_well_after_admission_stops(
    client: httpx.AsyncClient, app: App
) -> None:
    running = post(client, stream=True, max_tokens=3)
    await app.engine.submitted(1)
    active = active_requests(app.asgi)
    active.refuse_new()
    refused = await client.post("/v1/completions", json=completion())
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    await app.engine.advance(3)
    async with asyncio.timeout(PATIENCE):
        await active.wait_idle()
    assert read_events((await running).text).done


async def test_what_still_runs_can_be_ended_with_an_error(
    client: httpx.AsyncClient, app: App
) -> None:
    stream, whole = post(client, stream=True), post(client)
    await app.engine.submitted(2)
    await app.engine.advance(2)
    active = active_requests(app.asgi)
    active.refuse_new()
    active.end_all()
    async with asyncio.timeout(PATIENCE):
        await active.wait_idle()
    events = read_events((await stream).text)
    assert events.chunks[-1]["error"]["message"] == "The server is shutting down."
    assert not events.done
    assert (await whole).status_code == 503
    assert app.engine.live == []


async def test_an_idle_app_is_idle_at_once(app: App) -> None:
    async with asyncio.timeout(PATIENCE):
        await active_requests(app.asgi).wait_idle()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_takes_too_long_is_ended(
    tokenizer: Tokenizer, *, stream: bool
) -> None:
    app = make_app(tokenizer, config=ServerConfig(MODEL, request_timeout=0.02))
    app.engine.pause()
    async with in_memory(app) as client:
        response = await client.post("/v1/completions", json=completion(stream=stream))
    if stream:
        error = read_events(response.text).chunks[-1]["error"]
    else:
        assert response.status_code == 504
        assert response.headers["x-should-retry"] == "false"
        error = error_of(response)
    assert error["code"] == "timeout"
    assert app.engine.live == []


async def test_a_full_queue_is_a_503_that_says_when_to_come_back(tokenizer: Tokenizer) -> None:
    app = make_app(tokenizer, FakeEngine(tokenizer, max_queue=2))
    app.engine.pause()
    async with in_memory(app) as client:
        first, second = post(client), post(client)
        await app.engine.submitted(2)
        refused = await client.post("/v1/completions", json=completion(stream=True))
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "3"
        assert error_of(refused)["code"] == "overloaded"
        await app.engine.advance(20)
        assert [(await task).status_code for task in (first, second)] == [200, 200]


async def test_a_batch_that_does_not_fit_the_queue_is_refused_whole(tokenizer: Tokenizer) -> None:
    app = make_app(tokenizer, FakeEngine(tokenizer, max_queue=2))
    app.engine.pause()
    async with in_memory(app) as client:
        refused = await client.post("/v1/completions", json=completion(["A", "B", "C"]))
    assert refused.status_code == 503
    assert app.engine.live == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_dying_engine_ends_its_requests_promptly(
    client: httpx.AsyncClient, app: App, *, stream: bool
) -> None:
    app.engine.crash("hello", EngineDead("the engine stopped after a fault"))
    running = post(client, stream=stream)
    await app.engine.submitted(1)
    await app.engine.advance(5)
    response = await running
    if stream:
        assert read_events(response.text).chunks[-1]["error"]["code"] == "engine_dead"
    else:
        assert (response.status_code, error_of(response)["code"]) == (503, "engine_dead")


class FaultyTokenizer(Tokenizer):
    """Cannot decode one token."""

    BROKEN_ID = 77

    def __init__(self) -> None:
        definition = json.dumps(family_json("byte_level"))
        super().__init__(TokenizerSource("faulty", definition, eos_token_ids=frozenset({2})))

    def visible_bytes(self, token_id: int, skip_special: bool) -> bytes:
        if token_id == self.BROKEN_ID:
            raise RuntimeError("decoder state is corrupt")
        return super().visible_bytes(token_id, skip_special)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fault_in_decoding_ends_that_request_alone(
    caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    app = make_app(FaultyTokenizer())
    app.engine.script("bad", [70, 71, FaultyTokenizer.BROKEN_ID, 72])
    app.engine.pause()
    async with in_memory(app) as client:
        bad, good = post(client, prompt="bad", stream=stream), post(client, prompt="good")
        await app.engine.submitted(2)
        await app.engine.advance(20)
        response = await bad
        assert (await good).status_code == 200
    assert response.status_code == (200 if stream else 500)
    error = read_events(response.text).chunks[-1]["error"] if stream else error_of(response)
    assert error["code"] == "internal_error"
    assert "RuntimeError" not in response.text
    assert "corrupt" not in response.text
    assert app.engine.live == []
    (fault,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "corrupt" in str(fault.exc_info)


async def test_a_failed_sequence_is_logged_once_with_the_engines_words(
    client: httpx.AsyncClient, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    app.engine.fail("hello")
    running = post(client)
    await app.engine.submitted(1)
    await app.engine.advance(3)
    assert "NaN" not in (await running).text
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == [
        "a sequence failed in the engine: logits are NaN"
    ]


async def test_an_unforeseen_error_is_a_500_over_a_socket_too(app: App) -> None:
    app.engine.crash("hello", KeyError("inner secret"), after=0)
    async with on_socket(app) as (host, port), httpx.AsyncClient() as client:
        running = asyncio.create_task(
            client.post(f"http://{host}:{port}/v1/completions", json=completion())
        )
        await app.engine.submitted(1)
        await app.engine.advance(1)
        response = await running
        assert response.status_code == 500
        assert "secret" not in response.text
        assert (await client.get(f"http://{host}:{port}/health")).status_code == 200
