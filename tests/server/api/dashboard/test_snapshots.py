"""GET /dashboard/snapshots over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from server.api.app import Surroundings
from server.api.dashboard.feed import MAX_WATCHERS
from server.api.schemas.snapshot import Snapshot
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from tests.support.http_app import MODEL, App, completion, error_of, in_memory, make_app, on_socket
from tests.support.raw_http import PATIENCE

QUICK = Surroundings(snapshot_seconds=0.001)
PATH = "/dashboard/snapshots"


@pytest.fixture
def app(tokenizer: Tokenizer) -> App:
    app = make_app(tokenizer, surroundings=QUICK)
    app.engine.pause()
    return app


@asynccontextmanager
async def client_of(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        on_socket(app) as (host, port),
        httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=PATIENCE) as client,
    ):
        yield client


@asynccontextmanager
async def snapshots(
    client: httpx.AsyncClient, **headers: str
) -> AsyncIterator[AsyncIterator[Snapshot]]:
    async with client.stream("GET", PATH, headers=headers) as answer, asyncio.timeout(PATIENCE):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield (
            Snapshot.model_validate_json(line[6:])
            async for line in answer.aiter_lines()
            if line.startswith("data: ")
        )


async def test_a_request_under_way_is_seen_and_gone_when_it_has_ended(app: App) -> None:
    async with client_of(app) as client, snapshots(client) as seen:
        first = await anext(seen)
        assert (first.model, first.status, first.sequences) == (MODEL, "ready", ())
        body = completion("a secret prompt", max_tokens=4)
        asking = asyncio.create_task(
            client.post("/v1/completions", json=body, headers={"X-Request-Id": "mine"})
        )
        async for snapshot in seen:
            if snapshot.sequences:
                break
        assert "secret" not in snapshot.model_dump_json()
        (row,) = snapshot.sequences
        assert (row.name, row.state, row.max_tokens) == ("mine/0", "running", 4)
        assert row.age_seconds >= 0
        assert snapshot.pool.owners == ("mine/0",)
        assert snapshot.pool.runs[0].owners == (0,)
        await app.engine.advance(4)
        await asking
        async for snapshot in seen:
            if not snapshot.sequences and snapshot.first_token:
                break
        assert snapshot.first_token.requests == 1


async def test_rates_and_counters_are_the_engines(app: App) -> None:
    async with client_of(app) as client, snapshots(client) as seen:
        await anext(seen)
        second = await anext(seen)
    assert second.rates.generated_tokens == 0
    assert (second.pages.free, second.pages.used, second.pages.cached) == (90, 4, 6)
    assert (second.preemptions, second.prefix_hit_rate) == (2, 0.5)


async def test_every_watcher_sees_the_same_moments(app: App) -> None:
    async with client_of(app) as client, snapshots(client) as one, snapshots(client) as other:
        assert (await anext(one)).model == (await anext(other)).model


async def test_the_key_is_asked_for(tokenizer: Tokenizer) -> None:
    config = ServerConfig(MODEL, api_keys=("right",))
    app = make_app(tokenizer, config=config, surroundings=QUICK)
    async with client_of(app) as client:
        refused = await client.get(PATH, headers={"Authorization": "Bearer wrong"})
        assert (refused.status_code, error_of(refused)["code"]) == (401, "invalid_api_key")
        async with snapshots(client, Authorization="Bearer right") as seen:
            assert (await anext(seen)).model == MODEL


async def test_more_watchers_than_the_cap_are_refused(app: App) -> None:
    context = app.asgi.state.context
    watchers = [context.feed.join() for _ in range(MAX_WATCHERS)]
    async with in_memory(app) as client:
        refused = await client.get(PATH)
    assert (refused.status_code, error_of(refused)["code"]) == (503, "overloaded")
    assert int(refused.headers["retry-after"]) > 0
    for watcher in watchers:
        watcher.leave()


async def test_who_leaves_makes_room_for_another(app: App) -> None:
    async with client_of(app) as client:
        for _ in range(MAX_WATCHERS + 1):
            async with snapshots(client) as seen:
                await anext(seen)


async def test_the_end_of_the_server_ends_the_stream(app: App) -> None:
    async with client_of(app) as client, client.stream("GET", PATH) as answer:
        lines = answer.aiter_lines()
        async with asyncio.timeout(PATIENCE):
            assert json.loads((await anext(lines)).removeprefix("data: "))["model"] == MODEL
            app.asgi.state.context.feed.close()
            rest = [line async for line in lines]
        assert rest[-2:] == ["data: [DONE]", ""]
        assert (await client.get(PATH)).status_code == 503


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/main.js", PATH])
async def test_the_live_view_can_be_left_out(tokenizer: Tokenizer, path: str) -> None:
    app = make_app(tokenizer, config=ServerConfig(MODEL, dashboard=False))
    async with in_memory(app) as client:
        answer = await client.get(path)
    assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_url")
