"""An OpenAI-style server under a test's control: it says what it is told to, when it is told to."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.types import Receive, Scope, Send

Json = dict[str, object]
STREAM = [(b"content-type", b"text/event-stream")]


def event(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def text_event(text: str) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": None}]})


def usage_event(prompt: int, output: int, cached: int = 0) -> bytes:
    details = {"cached_tokens": cached}
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": details}
    return event({"choices": [], "usage": usage})


def words_answer(body: Json) -> bytes:
    """As many chunks as tokens were asked for, and the counts: a word is a token."""
    wanted = int(str(body["max_tokens"]))
    prompt = len(str(body.get("prompt") or body["messages"]).split())
    return b"".join([text_event("so ")] * wanted + [usage_event(prompt, wanted)])


def uncounted_answer(body: Json) -> bytes:
    return b"".join([text_event("so ")] * int(str(body["max_tokens"])))


@dataclass
class FakeOpenAI:
    """An ASGI app. `together` holds answers back until so many requests are being answered.

    With a `key`, whoever does not send it gets 401, but for the list of models with `open_list`.
    """

    answer: Callable[[Json], bytes] = words_answer
    models: tuple[str, ...] = ("fake",)
    metrics: Callable[[int], str] = lambda _: ""
    refuse: Callable[[Json], bool] = lambda _: False
    together: int = 1
    key: str | None = None
    open_list: bool = False
    bodies: list[Json] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    _gathered: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if not self._lets_in(scope):
            await _send(send, 401, b'{"error": {"message": "who are you?"}}', [])
            return
        if scope["method"] == "GET":
            await _send(send, 200, *self._page(scope["path"]))
            return
        body = json.loads(await _read(receive))
        self.bodies.append(body)
        self.paths.append(scope["path"])
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        if self.refuse(body):
            await _send(send, 400, b'{"error": {"message": "not\\nlike this"}}', [])
        else:
            await self._stream(body, receive, send)

    async def _stream(self, body: Json, receive: Receive, send: Send) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        if self.running >= self.together:
            self._gathered.set()
        ends = [asyncio.create_task(wait) for wait in (self._gathered.wait(), receive())]
        await asyncio.wait(
            ends, return_when=asyncio.FIRST_COMPLETED
        )  # all are here, or one has left
        for end in ends:
            end.cancel()
        self.running -= 1
        await _send(send, 200, self.answer(body) + b"data: [DONE]\n\n", STREAM)

    def _lets_in(self, scope: Scope) -> bool:
        if self.key is None or (self.open_list and scope["method"] == "GET"):
            return True
        return (b"authorization", f"Bearer {self.key}".encode()) in scope["headers"]

    def _page(self, path: str) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        if path == "/metrics":
            return self.metrics(len(self.bodies)).encode(), []
        assert path == "/v1/models"
        return json.dumps({"data": [{"id": model} for model in self.models]}).encode(), []


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _send(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
