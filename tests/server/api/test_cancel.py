"""A client that leaves frees what its request holds; nobody else notices."""

import asyncio
import random

import httpx
import pytest

from server.text.tokenizer import Tokenizer
from tests.support.fake_engine import FakeEngine
from tests.support.gated_tokenizer import GatedTokenizer
from tests.support.http_app import App, Json, chat, completion, make_app, on_socket
from tests.support.raw_http import PATIENCE, connection

REQUESTS = {"/v1/completions": completion, "/v1/chat/completions": chat}
both = pytest.mark.parametrize("path", REQUESTS)


@pytest.fixture
def app(tokenizer: Tokenizer) -> App:
    app = make_app(tokenizer)
    app.engine.pause()
    return app


async def until_idle(engine: FakeEngine) -> None:
    async with asyncio.timeout(PATIENCE):
        for call in engine.calls.values():
            await call.ended.wait()


async def until_submitted(engine: FakeEngine, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        await engine.submitted(number)


def long(path: str, **fields: object) -> Json:
    return REQUESTS[path](max_tokens=400, **fields)


def outcome(app: App, name: str) -> float:
    found = app.metrics.registry.get_sample_value("octavo_requests_total", {"outcome": name})
    assert found is not None
    return found


@both
@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("events", [0, 1, 30])
async def test_leaving_a_stream_aborts_it(app: App, path: str, *, events: int, reset: bool) -> None:
    async with on_socket(app) as address, connection(address) as client:
        await client.post(path, long(path, stream=True, n=2))
        await client.head()
        await app.engine.advance(events)
        if events:
            await client.until(b"\n\n")
        client.leave(reset=reset)
        await until_idle(app.engine)
    assert app.engine.live == []
    assert outcome(app, "cancelled") == 1


@both
@pytest.mark.parametrize("events", [0, 5])
async def test_leaving_before_a_whole_answer_aborts_it(app: App, path: str, events: int) -> None:
    """Case C08: twenty times, and nothing stays."""
    async with on_socket(app) as address:
        for number in range(1, 21):
            async with connection(address) as client:
                await client.post(path, long(path))
                await until_submitted(app.engine, number)
                await app.engine.advance(events)
                client.leave()
                await until_idle(app.engine)
    assert app.engine.live == []
    assert outcome(app, "cancelled") == 20


async def test_leaving_ends_every_prompt_of_the_request(app: App) -> None:
    async with on_socket(app) as address, connection(address) as client:
        await client.post("/v1/completions", long("/v1/completions", prompt=["A", "B"], n=2))
        await until_submitted(app.engine, 2)
        client.leave()
        await until_idle(app.engine)
    assert len(app.engine.calls) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_while_a_text_is_tokenised_leaves_nothing(*, stream: bool) -> None:
    tokenizer = GatedTokenizer()
    app = make_app(tokenizer)
    app.engine.pause()
    tokenizer.close_gate()
    async with on_socket(app) as address:
        async with connection(address) as client:
            await client.post("/v1/completions", completion(stream=stream))
            await asyncio.to_thread(tokenizer.began.wait, PATIENCE)
            client.leave()
        tokenizer.may_end.set()
        await until_submitted(app.engine, 1)
        await until_idle(app.engine)
    assert outcome(app, "cancelled") == 1


async def test_neighbours_of_a_leaver_go_on(app: App) -> None:
    """Case C15 too: both carry the same X-Request-Id and user."""
    body = completion(max_tokens=6, user="same")
    async with (
        on_socket(app) as address,
        connection(address) as leaver,
        httpx.AsyncClient(base_url=f"http://{address[0]}:{address[1]}") as client,
    ):
        await leaver.post("/v1/completions", {**body, "stream": True}, X_Request_Id="same")
        await leaver.head()
        staying = asyncio.create_task(
            client.post("/v1/completions", json=body, headers={"x-request-id": "same"})
        )
        await until_submitted(app.engine, 2)
        await app.engine.advance(2)
        leaver.leave()
        async with asyncio.timeout(PATIENCE):
            await next(iter(app.engine.calls.values())).ended.wait()
        await app.engine.advance(10)
        answer = await staying
    assert answer.headers["x-request-id"] == "same"
    assert answer.json()["usage"]["completion_tokens"] == 6
    assert len(app.engine.calls) == 2


async def test_five_hundred_cancelled_streams_leave_nothing(app: App) -> None:
    """Case C10."""
    chance = random.Random(10)
    async with on_socket(app) as address:
        for _ in range(20):
            await asyncio.gather(*(_cancelled_stream(app, address, chance) for _ in range(25)))
            await until_idle(app.engine)
            assert app.engine.live == []
    assert len(app.engine.calls) == 500
    assert app.metrics.registry.get_sample_value("octavo_requests_running") == 0
    ended = [outcome(app, name) for name in ("cancelled", "completed", "failed", "refused")]
    assert sum(ended) == 500
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def _cancelled_stream(app: App, address: tuple[str, int], chance: random.Random) -> None:
    async with connection(address) as client:
        body = completion(max_tokens=400, stream=True, n=chance.choice((1, 2)))
        await client.post("/v1/completions", body)
        await client.head()
        for _ in range(chance.randrange(4)):
            await app.engine.advance(1)
            await client.until(b"\n\n")
        client.leave(reset=chance.random() < 0.5)
