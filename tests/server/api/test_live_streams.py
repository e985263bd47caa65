"""Streams over a real socket: when bytes go out, and to readers of every speed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx
import pytest

from server.api.app import Surroundings
from server.api.sse import StreamLimits
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from tests.support.fake_engine import FakeEngine
from tests.support.http_app import MODEL, App, completion, make_app, on_socket, read_events
from tests.support.raw_http import PATIENCE, RawConnection, connection

SMALL = 64 * 1024
PROMPT = "the quick brown fox " * 20


@pytest.fixture
def app(tokenizer: Tokenizer) -> App:
    app = make_app(tokenizer)
    app.engine.pause()
    return app


def slow_reader_app(tokenizer: Tokenizer, write_seconds: float = 60.0) -> App:
    """Long answers, small buffers: a reader that stops is soon far behind."""
    engine = FakeEngine(tokenizer, max_model_len=100_000)
    engine.fallback = list(engine.fallback) * 500
    limits = StreamLimits(max_buffered_bytes=SMALL, full_seconds=0.05, write_seconds=write_seconds)
    return make_app(tokenizer, engine, surroundings=Surroundings(stream_limits=limits))


@asynccontextmanager
async def slow_reader(app: App) -> AsyncIterator[tuple[tuple[str, int], RawConnection]]:
    """A client whose system takes little, of a server whose system holds little."""
    async with (
        on_socket(app, send_buffer=8192) as address,
        connection(address, receive_buffer=4096) as slow,
    ):
        yield address, slow


async def test_the_headers_go_out_at_admission(app: App) -> None:
    """Case B06: no token has been computed yet."""
    async with on_socket(app) as address, connection(address) as client:
        await client.post("/v1/completions", completion(stream=True))
        head = await client.head()
        assert head.status == 200
        assert head.headers["content-type"].startswith("text/event-stream")
        assert len(app.engine.live) == 1


async def test_comment_lines_keep_a_silent_stream_open(tokenizer: Tokenizer) -> None:
    """Case B06."""
    config = ServerConfig(served_model_name=MODEL, keepalive_seconds=0.01)
    app = make_app(tokenizer, config=config)
    app.engine.pause()
    async with on_socket(app) as address, connection(address) as client:
        await client.post("/v1/completions", completion(stream=True, max_tokens=2))
        await client.head()
        for _ in range(3):
            assert b": keep-alive\n\n" in await client.until(b"alive\n\n")
        await app.engine.advance(2)
        body = (await client.until(b"data: [DONE]\n\n")).decode()
    assert '"text":" quick"' in body


async def test_keep_alive_lines_are_nothing_to_a_client(tokenizer: Tokenizer) -> None:
    config = ServerConfig(served_model_name=MODEL, keepalive_seconds=0.01)
    app = make_app(tokenizer, config=config)
    app.engine.pause()
    async with on_socket(app) as (host, port):
        url = f"http://{host}:{port}/v1/completions"
        seen = ""
        async with httpx.AsyncClient() as client, asyncio.timeout(PATIENCE):
            body = completion(stream=True, max_tokens=2)
            async with client.stream("POST", url, json=body) as response:
                async for text in response.aiter_text():
                    seen += text
                    if ": keep-alive\n\n" in seen and app.engine.live:
                        await app.engine.advance(2)
    assert read_events(seen).texts() == " quick brown"
    assert read_events(seen).done


async def test_a_token_goes_out_as_soon_as_it_is_there(app: App) -> None:
    async with on_socket(app) as address, connection(address) as client:
        await client.post("/v1/completions", completion(stream=True))
        await client.head()
        for word in (b" quick", b" brown", b" fox"):
            await app.engine.advance(1)
            assert word in await client.until(b"\n\n")


async def test_a_reader_that_stops_is_aborted_and_holds_nobody_up(tokenizer: Tokenizer) -> None:
    """Case B11: what waits for it is bounded, and its neighbour's text is whole."""
    app = slow_reader_app(tokenizer)
    async with slow_reader(app) as (address, slow):
        await slow.post("/v1/completions", completion(stream=True, max_tokens=9000))
        await slow.head()
        (call,) = app.engine.calls.values()
        async with httpx.AsyncClient(base_url=f"http://{address[0]}:{address[1]}") as client:
            neighbour = await client.post(
                "/v1/completions", json=completion(stream=True, max_tokens=50)
            )
        async with asyncio.timeout(PATIENCE):
            await call.ended.wait()
        assert app.metrics.registry.get_sample_value("octavo_requests_running") == 0
    assert read_events(neighbour.text).done
    assert failed(app) == 1


async def test_a_reader_that_resumes_gets_its_text_and_a_clear_end(tokenizer: Tokenizer) -> None:
    """Case B11."""
    app = slow_reader_app(tokenizer)
    async with slow_reader(app) as (_, slow):
        body = completion(stream=True, max_tokens=9000)
        await slow.post("/v1/completions", body, Connection="close")
        await slow.head()
        (call,) = app.engine.calls.values()
        async with asyncio.timeout(PATIENCE):
            await call.ended.wait()
        body = unchunk(await slow.rest())
    events = read_events(body)
    error = events.chunks[-1]["error"]
    assert error["code"] == "slow_reader"
    assert not events.done
    text = "".join(chunk["choices"][0]["text"] for chunk in events.chunks[:-1])
    whole = tokenizer.decode(app.engine.fallback, skip_special=True)
    assert text
    assert whole.startswith(text)


@pytest.mark.parametrize("choices", [1, 16])
async def test_a_burst_larger_than_the_buffer_reaches_who_reads(
    tokenizer: Tokenizer, choices: int
) -> None:
    """An echoed prompt with logprobs is one large event a choice, all of them in one step."""
    limits = StreamLimits(max_buffered_bytes=4096)
    app = make_app(tokenizer, surroundings=Surroundings(stream_limits=limits))
    asked = completion(prompt=PROMPT, stream=True, echo=True, logprobs=5, max_tokens=1, n=choices)
    async with on_socket(app) as (host, port), httpx.AsyncClient(timeout=PATIENCE) as client:
        answer = await client.post(f"http://{host}:{port}/v1/completions", json=asked)
    events = read_events(answer.text)
    assert len(answer.content) > choices * limits.max_buffered_bytes
    assert events.done
    assert all(events.finish_reasons(index)[-1] == "length" for index in range(choices))


async def test_a_connection_that_takes_nothing_is_given_up(tokenizer: Tokenizer) -> None:
    app = slow_reader_app(tokenizer, write_seconds=0.05)
    given_up = LogSignal("gave up a stream")
    async with slow_reader(app) as (_, slow):
        await slow.post("/v1/completions", completion(stream=True, max_tokens=9000))
        await slow.head()
        with given_up.listening("server.api.sse"):
            async with asyncio.timeout(PATIENCE):
                await given_up.seen.wait()
    assert failed(app) == 1


class LogSignal(logging.Handler):
    """Sets an event once a line of the log begins in a certain way."""

    def __init__(self, opening: str) -> None:
        super().__init__()
        self.seen = asyncio.Event()
        self._opening = opening

    @contextmanager
    def listening(self, logger: str) -> Iterator[None]:
        logging.getLogger(logger).addHandler(self)
        try:
            yield
        finally:
            logging.getLogger(logger).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith(self._opening):
            self.seen.set()


def failed(app: App) -> float:
    value = app.metrics.registry.get_sample_value("octavo_requests_total", {"outcome": "failed"})
    assert value is not None
    return value


def unchunk(body: bytes) -> str:
    """The content of a body in HTTP/1.1 chunks."""
    content = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        content += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    return content.decode()
