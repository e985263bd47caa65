"""nginx in front of replicas: streams at once, like heads together, and no request lost."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from server.api.app import active_requests
from server.text.tokenizer import Tokenizer
from tests.support.fake_engine import FakeEngine
from tests.support.http_app import MODEL, App, chat, completion, error_of, make_app, on_socket
from tests.support.live_server import PATIENCE
from tests.support.nginx import free_port, nginx

Json = dict[str, object]


@dataclass(frozen=True)
class Replicas:
    """nginx and the apps behind it. The engines are fakes, paced by the test."""

    client: httpx.AsyncClient
    apps: tuple[App, ...]

    def chosen(self) -> list[int]:
        """How many requests each replica has got so far."""
        return [len(app.engine.calls) for app in self.apps]

    async def post(self, body: Json) -> int:
        """Completes a request, and tells which replica did."""
        return (await self.post_all([body])).index(1)

    async def post_all(self, bodies: Sequence[Json]) -> list[int]:
        """Completes requests side by side, and tells how many each replica got."""
        before = self.chosen()
        async with asyncio.TaskGroup() as group:
            for body in bodies:
                group.create_task(self._post(body))
        return [now - then for now, then in zip(self.chosen(), before, strict=True)]

    async def _post(self, body: Json) -> None:
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        answer = await self.client.post(path, json=body | {"max_tokens": 1})
        assert answer.status_code == 200, answer.text


def client_of(url: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits)


@asynccontextmanager
async def replicas_behind(
    tokenizer: Tokenizer, folder: Path, number: int, room: int = 64
) -> AsyncIterator[Replicas]:
    engines = [FakeEngine(tokenizer, max_model_len=4096) for _ in range(number)]
    apps = tuple(make_app(tokenizer, engine) for engine in engines)
    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(on_socket(app)) for app in apps]
        names = [f"{host}:{port}" for host, port in places]
        url = stack.enter_context(nginx(folder, names, room=room))
        client = await stack.enter_async_context(client_of(url))
        yield Replicas(client, apps)


@pytest.fixture
async def replicas(tokenizer: Tokenizer, tmp_path: Path) -> AsyncIterator[Replicas]:
    async with replicas_behind(tokenizer, tmp_path, 2) as replicas:
        yield replicas


async def test_a_token_arrives_before_the_next_is_made(replicas: Replicas) -> None:
    for app in replicas.apps:
        app.engine.pause()
    body = completion(stream=True, max_tokens=3)
    async with replicas.client.stream("POST", "/v1/completions", json=body) as answer:
        lines = (line async for line in answer.aiter_lines() if line.startswith("data: "))
        for _ in range(3):
            for app in replicas.apps:
                await app.engine.advance(1)
            assert '"text":' in await asyncio.wait_for(anext(lines), PATIENCE)
        *_, last = [line async for line in lines]
        assert last == "data: [DONE]"


async def test_prompts_with_the_same_head_go_to_one_replica(replicas: Replicas) -> None:
    head = "a page of a book " * 100
    assert len({await replicas.post(completion(head + str(end))) for end in range(8)}) == 1


async def test_the_turns_of_a_conversation_go_to_one_replica(replicas: Replicas) -> None:
    for number in range(4):
        messages: list[Json] = [{"role": "user", "content": f"hello {number}"}]
        chosen = set()
        for turn in range(3):
            chosen.add(await replicas.post(chat() | {"messages": messages}))
            messages = [*messages, {"role": "assistant", "content": "a"}]
            messages = [*messages, {"role": "user", "content": f"and {turn}"}]
        assert len(chosen) == 1


async def test_different_heads_spread(replicas: Replicas) -> None:
    kinds: list[list[Json]] = [
        [completion(f"hello {i}") for i in range(24)],
        [completion([i, 5, 6]) for i in range(24)],
        [completion([f"hello {i}"]) for i in range(24)],
        [chat(f"hello {i}") for i in range(24)],
        [chat([{"type": "text", "text": f"hello {i}"}]) for i in range(24)],
        [completion(cache_salt=f"user {i}") for i in range(24)],
    ]
    for bodies in kinds:
        assert min(await replicas.post_all(bodies)) >= 1, bodies[0]


async def test_a_body_sent_in_chunks_is_read_to_its_head(replicas: Replicas) -> None:
    async def chunks(number: int) -> AsyncIterator[bytes]:
        yield b'{"model": "%s", "max_tokens": 1, "prompt": ' % MODEL.encode()
        yield b'"%d"}' % number

    kind = {"content-type": "application/json"}
    for rounds in (1, 2):
        for number in range(24):
            content = chunks(number)
            answer = await replicas.client.post("/v1/completions", content=content, headers=kind)
            assert answer.status_code == 200, answer.text
        if rounds == 1:
            once = replicas.chosen()
    assert min(once) >= 1
    assert replicas.chosen() == [2 * count for count in once]


async def test_a_large_body_is_read_to_its_head(replicas: Replicas) -> None:
    """The prompt is too long for the model; the replica that says so is the one of its head."""
    body = completion("a page of a book " * 200_000)
    for _ in range(2):
        answer = await replicas.client.post("/v1/completions", json=body)
        assert error_of(answer)["code"] == "context_length_exceeded"


async def test_a_head_that_everybody_shares_spills_over(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    async with replicas_behind(tokenizer, tmp_path, 2, room=3) as replicas:
        for app in replicas.apps:
            app.engine.pause()
        body = completion(max_tokens=1)
        posts = [
            asyncio.create_task(replicas.client.post("/v1/completions", json=body))
            for _ in range(6)
        ]
        for app in replicas.apps:
            await asyncio.wait_for(app.engine.submitted(3), PATIENCE)
            await app.engine.advance(1)
        assert [(await post).status_code for post in posts] == [200] * 6


async def test_a_client_that_leaves_frees_its_replica(replicas: Replicas) -> None:
    for app in replicas.apps:
        app.engine.pause()
    post = asyncio.create_task(replicas.client.post("/v1/completions", json=completion()))
    arrivals = [asyncio.create_task(app.engine.submitted(1)) for app in replicas.apps]
    await asyncio.wait(arrivals, return_when=asyncio.FIRST_COMPLETED)
    post.cancel()
    (call,) = [call for app in replicas.apps for call in app.engine.calls.values()]
    await asyncio.wait_for(call.ended.wait(), PATIENCE)
    for arrival in arrivals:
        arrival.cancel()


async def test_a_replica_that_refuses_is_passed_over(replicas: Replicas) -> None:
    first = await replicas.post(completion())
    active_requests(replicas.apps[first].asgi).refuse_new()
    assert await replicas.post(completion()) != first


async def test_the_heads_of_other_replicas_stay_where_they_are(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    async with replicas_behind(tokenizer, tmp_path, 3) as replicas:
        bodies = [completion(f"hello {number}") for number in range(16)]
        before = [await replicas.post(body) for body in bodies]
        active_requests(replicas.apps[0].asgi).refuse_new()
        after = [await replicas.post(body) for body in bodies]
    assert 0 not in after
    assert {was for was, now in zip(before, after, strict=True) if was != now} <= {0}


async def test_the_refusal_of_all_reaches_the_client(replicas: Replicas) -> None:
    for app in replicas.apps:
        active_requests(app.asgi).refuse_new()
    for _ in range(2):
        answer = await replicas.client.post("/v1/completions", json=completion())
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert error_of(answer)["code"] == "overloaded"


async def test_only_the_api_is_open(replicas: Replicas) -> None:
    for path in ("/metrics", "/debug/pages", "/dashboard", "/livez", "/"):
        answer = await replicas.client.get(path)
        assert answer.status_code == 404
        assert error_of(answer)["code"] == "unknown_url"
    for path in ("/v1/models", "/health"):
        assert (await replicas.client.get(path)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        '{"prompt": [%s1]}' % ("1," * 2_000_000),
        '{"messages": [%s{}]}' % ("{}," * 1_300_000),
        '{"messages": [{"role": "user", "content": [%s1]}]}' % ("1," * 2_000_000),
        '{"prompt": "", "cache_salt": [%s1]}' % ("1," * 2_000_000),
    ],
    ids=["ids", "messages", "parts", "salt"],
)
async def test_what_follows_the_head_of_a_large_body_keeps_nobody_waiting(
    body: str, tmp_path: Path
) -> None:
    """nginx has one worker here, and whatever it computes holds up everybody."""
    async with AsyncExitStack() as stack:
        name = await stack.enter_async_context(body_reader(len(body)))
        url = stack.enter_context(nginx(tmp_path, [name]))
        client = await stack.enter_async_context(client_of(url))
        post = asyncio.create_task(client.post("/v1/completions", content=body))
        while not post.done():
            answer = await asyncio.wait_for(client.get("/health"), 5)
            assert answer.status_code == 200
        assert post.result().status_code == 200


@asynccontextmanager
async def body_reader(limit: int) -> AsyncIterator[str]:
    """A replica that takes whole bodies, of `limit` bytes at most, and says nothing; host:port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await closed(writer)

    async with await asyncio.start_server(answer, "127.0.0.1", 0, limit=limit) as server:
        yield "{}:{}".format(*server.sockets[0].getsockname())


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def sent_raw(url: str, request: bytes) -> httpx.Response:
    """The answer to a request that no client library would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
    writer.write(request)
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).decode("ascii")
    status, *lines = head.split("\r\n")
    headers = [line.partition(": ")[::2] for line in lines if line]
    length = int(dict(headers)["Content-Length"])
    body = await asyncio.wait_for(reader.readexactly(length), PATIENCE)
    await closed(writer)
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)


async def test_a_client_of_http_1_0_need_not_say_which_host(replicas: Replicas) -> None:
    answer = await sent_raw(str(replicas.client.base_url), b"GET /health HTTP/1.0\r\n\r\n")
    assert answer.status_code == 200, answer.text


POST = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
REFUSED = {
    b"\1\2\r\n\r\n": (400, None),
    b"GET /health HTTP/1.1\r\n\r\n": (400, None),
    b"GET /octavo/refusal HTTP/1.1\r\nHost: a\r\n\r\n": (404, "unknown_url"),
    b"TRACE /health HTTP/1.1\r\nHost: a\r\n\r\n": (405, "method_not_allowed"),
    POST + b"Content-Length: 9000000\r\n\r\n": (413, "body_too_large"),
    POST + CHUNKED + b"500000\r\n%s\r\n0\r\n\r\n" % bytes(0x500000): (413, "body_too_large"),
    POST + CHUNKED + b"no size\r\n": (400, None),
    POST + b"Transfer-Encoding: gzip\r\n\r\n": (501, None),
    b"GET /%s HTTP/1.1\r\n\r\n" % (b"a" * 9000): (414, None),
    b"GET / HTTP/1.1\r\nX: %s\r\n\r\n" % (b"a" * 9000): (431, None),
    b"GET / HTTP/3.0\r\n\r\n": (505, None),
}


async def test_what_nginx_refuses_itself_is_told_as_everything_else(tmp_path: Path) -> None:
    with nginx(tmp_path, [f"127.0.0.1:{free_port()}"]) as url:
        for request, told in REFUSED.items():
            answer = await sent_raw(url, request)
            assert answer.headers["content-type"] == "application/json"
            assert (answer.status_code, error_of(answer)["code"]) == told


@pytest.mark.parametrize("number", [1, 3, 9])
async def test_replicas_that_nobody_answers_for_are_a_503(number: int, tmp_path: Path) -> None:
    names = [f"127.0.0.1:{free_port()}" for _ in range(number)]
    with nginx(tmp_path, names) as url:
        async with client_of(url) as client:
            for _ in range(2):
                answer = await client.post("/v1/completions", json=completion())
                assert answer.status_code == 503
                assert error_of(answer)["code"] == "overloaded"


async def test_a_request_that_may_have_been_computed_is_not_sent_again(tmp_path: Path) -> None:
    """Both replicas take the request and hang up: only one of them ever sees it."""
    seen = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        await reader.readuntil(b"}")
        seen += 1
        writer.close()

    servers = [await asyncio.start_server(hang_up, "127.0.0.1", 0) for _ in range(2)]
    names = ["{}:{}".format(*server.sockets[0].getsockname()) for server in servers]
    with nginx(tmp_path, names) as url:
        async with client_of(url) as client:
            answer = await client.post("/v1/completions", json=completion())
    for server in servers:
        server.close()
    assert answer.status_code == 502
    assert error_of(answer)["code"] == "replica_lost"
    assert seen == 1
