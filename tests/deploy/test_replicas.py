"""Two real servers behind nginx: one is killed, one is drained, in the middle of load."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.live_server import PATIENCE, LiveServer, live_server
from tests.support.nginx import nginx

Json = dict[str, object]

FLAGS = ("--max-num-seqs=16", "--kv-cache-memory=64MiB", "--max-model-len=20000")
CLIENTS = 6


@pytest.fixture(scope="module")
def survivor(tiny_model: Path) -> Iterator[LiveServer]:
    with live_server(tiny_model, *FLAGS) as server:
        yield server


@contextmanager
def killed(model: Path) -> Iterator[LiveServer]:
    """A server that the test kills: no good end is asked of it."""
    try:
        with live_server(model, *FLAGS) as server:
            yield server
    except AssertionError:
        if server.process.returncode != -9:
            raise


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


async def broken_off(client: httpx.AsyncClient, number: int, begun: asyncio.Queue[int]) -> bool:
    """Whether a stream that would write for minutes ends with an error."""
    body = request(number, 19_000, stream=True)
    try:
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    begun.put_nowait(number)
    except httpx.RemoteProtocolError:
        return True
    return False


async def completed(client: httpx.AsyncClient, number: int) -> int:
    answer = await client.post("/v1/completions", json=request(number, 4))
    return answer.status_code


def running(server: LiveServer) -> float:
    return server.metrics()["octavo_requests_running"]


async def first_tokens(begun: asyncio.Queue[int], of: int) -> None:
    seen: set[int] = set()
    while len(seen) < of:
        seen.add(await asyncio.wait_for(begun.get(), PATIENCE))


async def test_a_killed_replica_takes_its_own_streams_with_it_and_no_other(
    tiny_model: Path, survivor: LiveServer, tmp_path: Path
) -> None:
    begun: asyncio.Queue[int] = asyncio.Queue()
    with killed(tiny_model) as victim:
        async with both(tmp_path, survivor, victim) as client:
            streams = [
                asyncio.create_task(broken_off(client, number, begun)) for number in range(CLIENTS)
            ]
            await first_tokens(begun, CLIENTS)
            lost = int(running(victim))
            victim.process.kill()
            for _ in range(lost):
                done, _ = await asyncio.wait(
                    [stream for stream in streams if not stream.done()],
                    timeout=PATIENCE,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                assert done
            ended = [stream for stream in streams if stream.done()]
            assert 0 < lost < CLIENTS
            assert [await stream for stream in ended] == [True] * lost
            assert {await completed(client, number) for number in range(CLIENTS)} == {200}
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)


async def test_draining_a_replica_loses_no_request(
    tiny_model: Path, survivor: LiveServer, tmp_path: Path
) -> None:
    statuses: list[int] = []
    with live_server(tiny_model, *FLAGS) as leaving:
        async with both(tmp_path, survivor, leaving) as client:

            async def keep_asking(first: int) -> None:
                """Until a while after the replica has gone."""
                number, after = first, 0
                while after < 4:
                    after += leaving.process.poll() is not None
                    statuses.append(await completed(client, number))
                    number += CLIENTS

            begun: asyncio.Queue[int] = asyncio.Queue()
            long = [asyncio.create_task(streamed(client, n, begun)) for n in range(CLIENTS)]
            await first_tokens(begun, CLIENTS)
            assert running(leaving) > 0
            load = [asyncio.create_task(keep_asking(number)) for number in range(CLIENTS)]
            leaving.process.terminate()
            await asyncio.gather(*load)
            assert [await stream for stream in long] == ["data: [DONE]"] * CLIENTS
    assert set(statuses) == {200}


async def streamed(client: httpx.AsyncClient, number: int, begun: asyncio.Queue[int]) -> str:
    """The last line of a stream that takes a while."""
    last = ""
    body = request(number, 300, stream=True)
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                last = line
                begun.put_nowait(number)
    return last
