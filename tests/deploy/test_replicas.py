"""Two real servers behind nginx: one is killed, one is drained, in the middle of load."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.live_server import PATIENCE, LiveServer, live_server
from tests.support.nginx import nginx

Json = dict[str, object]

FLAGS = ("--grace=120", "--max-num-seqs=32", "--kv-cache-memory=64MiB", "--max-model-len=20000")
CLIENTS = 6


@pytest.fixture(scope="module")
def survivor(tiny_model: Path) -> Iterator[LiveServer]:
    with live_server(tiny_model, *FLAGS) as server:
        yield server


@asynccontextmanager
async def both(folder: Path, *servers: LiveServer) -> AsyncIterator[httpx.AsyncClient]:
    names = [server.url.removeprefix("http://") for server in servers]
    limits = httpx.Limits(max_connections=None)
    with nginx(folder, names) as url:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits) as client:
            yield client


def request(number: int, max_tokens: int, **fields: object) -> Json:
    body = {"model": "tiny", "prompt": [number, 7, 8], "max_tokens": max_tokens, "temperature": 0}
    return body | {"ignore_eos": True} | fields


async def completed(client: httpx.AsyncClient, number: int) -> int:
    answer = await client.post("/v1/completions", json=request(number, 4))
    return answer.status_code


def running(server: LiveServer) -> float:
    return server.metrics()["octavo_requests_running"]


async def open_streams(
    client: httpx.AsyncClient, servers: Sequence[LiveServer], max_tokens: int
) -> "list[asyncio.Task[str]]":
    """Streams that have begun, some on each server."""
    streams: list[asyncio.Task[str]] = []
    while not streams or min(map(running, servers)) < 2:
        begun = [asyncio.Event() for _ in range(CLIENTS)]
        for event in begun:
            body = request(len(streams), max_tokens, stream=True)
            streams.append(asyncio.create_task(last_line(client, body, event)))
        for event in begun:
            await asyncio.wait_for(event.wait(), PATIENCE)
    return streams


async def last_line(client: httpx.AsyncClient, body: Json, begun: asyncio.Event) -> str:
    """What a stream ends with, or the name of the error that ends it."""
    last = ""
    try:
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    last = line
                    begun.set()
    except httpx.RemoteProtocolError as error:
        return type(error).__name__
    return last


async def test_a_killed_replica_takes_its_own_streams_with_it_and_no_other(
    tiny_model: Path, survivor: LiveServer, tmp_path: Path
) -> None:
    with live_server(tiny_model, *FLAGS, killed=True) as victim:
        async with both(tmp_path, survivor, victim) as client:
            streams = await open_streams(client, (survivor, victim), 19_000)
            lost = int(running(victim))
            victim.process.kill()
            ends = asyncio.as_completed(streams, timeout=PATIENCE)
            assert [await next(ends) for _ in range(lost)] == ["RemoteProtocolError"] * lost
            assert {await completed(client, number) for number in range(8)} == {200}
            assert running(survivor) == len(streams) - lost
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)


async def test_draining_a_replica_loses_no_request(
    tiny_model: Path, survivor: LiveServer, tmp_path: Path
) -> None:
    statuses: list[int] = []

    async def keep_asking(client: httpx.AsyncClient, first: int) -> None:
        """Until a while after the replica has gone."""
        number, after = first, 0
        while after < 4:
            after += leaving.process.poll() is not None
            statuses.append(await completed(client, number))
            number += CLIENTS

    with live_server(tiny_model, *FLAGS) as leaving:
        async with both(tmp_path, survivor, leaving) as client:
            long = await open_streams(client, (survivor, leaving), 200)
            leaving.process.terminate()
            await asyncio.gather(*(keep_asking(client, number) for number in range(CLIENTS)))
            assert {await stream for stream in long} == {"data: [DONE]"}
    assert set(statuses) == {200}
