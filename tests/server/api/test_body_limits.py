"""Bodies that are too large are refused before anything is made of them. Case F05."""

import asyncio
import gzip
import json
import tracemalloc

import httpx
import pytest

from engine.errors import Overloaded
from server.api.workers import Workers
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from tests.support.gated_tokenizer import GatedTokenizer
from tests.support.http_app import MODEL, App, completion, error_of, in_memory, make_app, on_socket
from tests.support.raw_http import PATIENCE, connection, request_bytes

LIMIT = 256 * 1024
MIB = 1024 * 1024


@pytest.fixture
def app(tokenizer: Tokenizer) -> App:
    return make_app(tokenizer, config=ServerConfig(MODEL, max_body_bytes=LIMIT))


def body_of(size: int) -> bytes:
    """A request of exactly `size` bytes."""
    empty = json.dumps(completion("")).encode()
    return json.dumps(completion("x" * (size - len(empty)))).encode()


async def test_a_body_of_the_limit_is_read(app: App) -> None:
    async with in_memory(app) as client:
        headers = {"content-type": "application/json"}
        response = await client.post("/v1/completions", content=body_of(LIMIT), headers=headers)
    assert error_of(response)["code"] == "context_length_exceeded"  # read, and then too long


@pytest.mark.parametrize("size", [LIMIT + 1, MIB, 8 * MIB, 20 * MIB, 100 * MIB])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_larger_body_is_a_413(app: App, size: int, *, chunked: bool) -> None:
    block = b" " * min(size, MIB)

    async def blocks():
        for _ in range(-(-size // len(block))):
            yield block

    headers = {"content-type": "application/json"}
    if not chunked:
        headers["content-length"] = str(-(-size // len(block)) * len(block))
    async with on_socket(app) as (host, port), httpx.AsyncClient(timeout=PATIENCE) as client:
        url = f"http://{host}:{port}/v1/completions"
        response = await client.post(url, content=blocks(), headers=headers)
        assert response.status_code == 413
        assert error_of(response)["code"] == "body_too_large"
        assert (await client.post(url, json=completion())).status_code == 200


async def test_little_memory_is_used_for_a_body_that_is_refused(app: App) -> None:
    async with on_socket(app) as address, connection(address) as client:
        tracemalloc.start()
        await client.send(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(40):
            await client.send(b"100000\r\n" + b" " * MIB + b"\r\n")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await client.send(b"0\r\n\r\n")
        assert (await client.head()).status == 413
    assert peak < 12 * MIB


async def test_a_claim_alone_is_refused_before_the_body(app: App) -> None:
    async with on_socket(app) as address, connection(address) as client:
        await client.send(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n"
        )
        head = await client.head()
    assert (head.status, head.headers["connection"]) == (413, "close")


async def test_a_client_that_leaves_in_its_body_is_no_error(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """A Content-Length that promises more than comes."""
    async with on_socket(app) as address:
        async with connection(address) as client:
            await client.send(request_bytes("/v1/completions", b"{}", Content_Length="5000"))
        async with httpx.AsyncClient(base_url=f"http://{address[0]}:{address[1]}") as client:
            assert (await client.post("/v1/completions", json=completion())).status_code == 200
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_body_longer_than_it_says_is_cut_there(app: App) -> None:
    body = json.dumps(completion()).encode()
    async with on_socket(app) as address, connection(address) as client:
        await client.send(
            request_bytes("/v1/completions", body + b"garbage", Content_Length=str(len(body)))
        )
        assert (await client.head()).status == 200


async def test_a_bomb_of_gzip_is_not_unpacked(app: App) -> None:
    bomb = gzip.compress(b"0" * 50 * MIB)
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    async with in_memory(app) as client:
        response = await client.post("/v1/completions", content=bomb, headers=headers)
    assert response.status_code == 415


async def test_others_are_served_while_a_text_is_tokenised() -> None:
    tokenizer = GatedTokenizer()
    app = make_app(tokenizer)
    tokenizer.close_gate()
    async with in_memory(app) as client:
        reading = asyncio.create_task(client.post("/v1/completions", json=completion()))
        await asyncio.to_thread(tokenizer.began.wait, PATIENCE)
        assert (await client.get("/health")).status_code == 200
        ids = completion([5, 6, 7], max_tokens=2)
        assert (await client.post("/v1/completions", json=ids)).status_code == 200
        assert not reading.done()
        tokenizer.may_end.set()
        assert (await reading).status_code == 200


async def test_texts_do_not_pile_up_before_the_tokeniser() -> None:
    tokenizer = GatedTokenizer()
    tokenizer.close_gate()
    workers = Workers(threads=1, max_pending=2)
    waiting = [
        asyncio.create_task(
            workers.run(lambda: tokenizer.encode("a", add_special=False, parse_special=False))
        )
        for _ in range(2)
    ]
    await asyncio.to_thread(tokenizer.began.wait, PATIENCE)
    with pytest.raises(Overloaded):
        await workers.run(int)
    tokenizer.may_end.set()
    assert len(await asyncio.gather(*waiting)) == 2
    assert await workers.run(int) == 0
    workers.close()
