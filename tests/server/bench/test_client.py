"""One streamed request, on a clock that the answer itself moves."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from server.bench.chunk import Usage
from server.bench.client import Prober, find_model, open_client
from server.bench.errors import BenchError
from server.bench.load import PlannedRequest
from server.bench.measured import Measured
from server.bench.target import Target
from tests.support.fake_openai import event, text_event, usage_event

DONE = b"data: [DONE]\n\n"
TARGET = Target("http://server", "m")
REQUEST = PlannedRequest("red stone", 4)
SSE = {"content-type": "text/event-stream"}

Part = bytes | float | Exception | asyncio.Event


class Script(httpx2.AsyncByteStream):
    """Bytes are sent, seconds pass, errors happen, events are waited for."""

    def __init__(self, *parts: Part) -> None:
        self.now = 100.0
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            if isinstance(part, float):
                self.now += part
            elif isinstance(part, bytes):
                yield part
            elif isinstance(part, asyncio.Event):
                await part.wait()
            else:
                raise part

    async def aclose(self) -> None:
        pass


async def measured(*parts: Part, status: int = 200, within: float = 60) -> Measured:
    script = Script(*parts)
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, headers=SSE, stream=script))
    async with open_client(transport) as client:
        return await Prober(client, lambda: script.now, within).measure(TARGET, REQUEST)


def kind(result: Measured) -> str:
    assert result.failure
    return result.failure.kind


async def test_each_chunk_of_text_has_its_time() -> None:
    result = await measured(
        *(2.0, text_event("a"), 0.5, text_event("b"), 0.25, text_event("c")),
        *(usage_event(9, 3, 5), 0.25, DONE),
    )
    assert result.failure is None
    assert (result.ttft, result.gaps, result.seconds) == (2.0, (0.5, 0.25), 3.0)
    assert result.usage == Usage(9, 3, 5)
    assert result.seconds_per_token == 0.375


async def test_a_chunk_of_several_tokens_counts_as_the_server_says() -> None:
    result = await measured(1.0, text_event("a b"), 1.0, text_event("c d"), usage_event(9, 5), DONE)
    assert result.output_tokens == 5
    assert result.gaps == (1.0,)
    assert result.seconds_per_token == 0.25


async def test_a_server_that_does_not_count_is_counted_by_its_chunks() -> None:
    result = await measured(1.0, text_event("a"), 1.0, text_event("b"), DONE)
    assert result.usage is None
    assert result.output_tokens == 2


async def test_events_may_come_in_pieces_with_comments_and_names_between() -> None:
    whole = text_event("a").replace(b"data: ", b": keep-alive\n\nevent: x\nid: 1\ndata:")
    pieces = [bytes([byte]) for byte in whole.replace(b"\n", b"\r\n")]
    spread = b'data: {"choices":\ndata: [{"text": "b"}]}\n\n'
    result = await measured(*pieces, 1.0, b": keep-alive\n\n", 1.0, spread, DONE)
    assert result.failure is None
    assert result.gaps == (2.0,)


async def test_the_end_of_an_answer_is_no_token_unless_it_is_all_there_is() -> None:
    end = event({"choices": [{"text": "", "finish_reason": "length"}]})
    assert (await measured(1.0, text_event("a"), 1.0, end, DONE)).gaps == ()
    assert (await measured(1.0, end, 1.0, DONE)).ttft == 1.0


async def test_a_stream_without_text_and_without_an_end_is_a_failure() -> None:
    assert str((await measured(DONE)).failure) == "no text: the stream ended without any"
    assert kind(await measured(usage_event(9, 3), DONE)) == "no text"


async def test_a_chats_first_chunk_without_text_is_no_token() -> None:
    role = event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    said = event({"choices": [{"delta": {"content": "a"}}]})
    thought = event({"choices": [{"delta": {"reasoning_content": "hm"}}]})
    result = await measured(1.0, role, 1.0, thought, 1.0, said, DONE)
    assert (result.ttft, result.gaps) == (2.0, (1.0,))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((event({"error": {"message": "out of\nmemory"}}),), "error event: out of memory"),
        ((event({"error": "no"}),), "error event: no"),
        ((text_event("a"),), "cut: the stream ended before [DONE]"),
        ((text_event("a"), httpx2.ReadError("reset")), "cut: reset"),
        ((httpx2.ConnectError("refused"),), "connect: refused"),
        ((b"data: {oops\n\n",), "bad chunk: not JSON: '{oops'"),
        ((b"data: 5\n\n",), "bad chunk: no object: '5'"),
        ((b'data: {"choices": [1]}\n\n',), "bad chunk: no choices: '{\"choices\": [1]}'"),
        ((b"data: [[[[" + b"[" * 200_000 + b"\n\n",), f"bad chunk: nested too deep: {'[' * 80!r}"),
        ((event({"error": {"message": "\ud800\x1b[2J"}}),), r"error event: \ud800\x1b[2J"),
    ],
)
async def test_a_failure_is_told_by_its_kind(parts: tuple[Part, ...], expected: str) -> None:
    assert str((await measured(*parts)).failure) == expected


@pytest.mark.parametrize("count", [-5, True, 0.5, "9", [9], 10**400])
async def test_what_cannot_count_tokens_is_a_bad_chunk(count: object) -> None:
    for field in ("prompt_tokens", "completion_tokens"):
        result = await measured(text_event("a"), event({"usage": {field: count}}), DONE)
        assert str(result.failure).startswith("bad chunk: no count of tokens: ")


async def test_more_cached_tokens_than_prompt_tokens_are_a_bad_chunk() -> None:
    assert kind(await measured(text_event("a"), usage_event(4, 1, cached=5), DONE)) == "bad chunk"


async def test_counts_that_a_server_leaves_out_are_0() -> None:
    result = await measured(text_event("a"), event({"usage": {"prompt_tokens": None}}), DONE)
    assert result.usage == Usage(0, 0, 0)


async def test_a_refusal_is_told_by_its_status_and_message() -> None:
    body = json.dumps({"error": {"message": "queue is full"}}).encode()
    assert str((await measured(body, status=503)).failure) == "http 503: queue is full"
    assert str((await measured(b"<h1>no</h1>", status=502)).failure) == "http 502: <h1>no</h1>"
    assert str((await measured(b"[" * 200_000, status=500)).failure) == f"http 500: {'[' * 200}"


@pytest.mark.parametrize("status", [200, 500])
async def test_an_encoding_that_decodes_no_text_is_not_followed(status: int) -> None:
    header = {"content-type": "text/event-stream; charset=base64"}
    content = text_event("\u00e9") + DONE
    answer = httpx2.MockTransport(
        lambda _: httpx2.Response(status, headers=header, content=content)
    )
    async with open_client(answer) as client:
        result = await Prober(client, lambda: 0.0, 60).measure(TARGET, REQUEST)
    assert (result.failure is None) == (status == 200)


async def test_an_answer_that_is_no_stream_is_a_failure() -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={"choices": []}))
    async with open_client(transport) as client:
        result = await Prober(client, lambda: 0.0, 60).measure(TARGET, REQUEST)
    assert kind(result) == "no stream"


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    result = await measured(text_event("a"), asyncio.Event(), within=0.01)
    assert kind(result) == "timeout"


async def test_a_connection_that_breaks_within_a_stream_is_a_cut() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        chunk = text_event("a")
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(half, "127.0.0.1", 0)
    async with listening, open_client() as client:
        port = listening.sockets[0].getsockname()[1]
        target = Target(f"http://127.0.0.1:{port}", "m")
        result = await Prober(client, lambda: 0.0, 60).measure(target, REQUEST)
    assert kind(result) == "cut"
    assert len(result.arrivals) == 1


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, {"data": []}, "lists no model"),
        (200, "text", "lists no model"),
        (200, {"data": [{"id": "\ud800"}]}, "lists no model"),
        (200, {"data": [{"id": 5}]}, "lists no model"),
        (401, {}, "asks for a valid key, give it with --api-key"),
        (503, {}, "answers 503"),
    ],
)
async def test_a_server_without_models_says_what_is_wrong(
    status: int, body: object, message: str
) -> None:
    content = json.dumps(body)
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, text=content))
    async with open_client(transport) as client:
        with pytest.raises(BenchError, match=message):
            await find_model(client, "http://server", None)
        assert await find_model(client, "http://server", None, "mine") == "mine"
