"""The real app around a fake engine, reached in memory or over a real socket."""

import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI

from server.api.app import Surroundings, create_app
from server.api.metrics import Metrics
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from server.text.tokenizer_loading import load_tokenizer
from tests.support.fake_engine import FakeEngine
from tests.support.tiny_tokenizer import write_tokenizer

MODEL = "tiny/fake-model"

Json = dict[str, object]


def tiny_tokenizer(folder: Path) -> Tokenizer:
    write_tokenizer(folder)
    return load_tokenizer(folder)


@dataclass(frozen=True)
class App:
    """One app and what stands around it."""

    asgi: FastAPI
    engine: FakeEngine
    tokenizer: Tokenizer
    metrics: Metrics


def make_app(
    tokenizer: Tokenizer,
    engine: FakeEngine | None = None,
    config: ServerConfig | None = None,
    surroundings: Surroundings | None = None,
) -> App:
    engine = engine or FakeEngine(tokenizer)
    metrics = Metrics()
    config = config or ServerConfig(served_model_name=MODEL)
    return App(
        create_app(config, engine, tokenizer, metrics, surroundings), engine, tokenizer, metrics
    )


def in_memory(app: App, **headers: str) -> httpx.AsyncClient:
    """A client of the app without a socket; streams arrive when they are over."""
    transport = httpx.ASGITransport(app.asgi)
    return httpx.AsyncClient(transport=transport, base_url="http://octavo", headers=headers)


@asynccontextmanager
async def on_socket(app: App, *, send_buffer: int | None = None) -> AsyncIterator[tuple[str, int]]:
    """The app behind uvicorn on a free port of 127.0.0.1, in the test's own event loop.

    `send_buffer` is what the system may hold of an answer that is not read.
    """
    config = uvicorn.Config(
        app.asgi, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=5
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    listener = socket.create_server(("127.0.0.1", 0))
    if send_buffer is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    await server.startup(sockets=[listener])
    try:
        yield listener.getsockname()
    finally:
        await server.shutdown(sockets=[listener])


@dataclass(frozen=True)
class Events:
    """A finished event stream, taken apart."""

    chunks: list[Json]
    done: bool

    def texts(self, index: int = 0) -> str:
        """The joined text of one choice, of either API."""
        return "".join(_text(choice) for choice in self.choices(index))

    def choices(self, index: int = 0) -> list[Json]:
        return [
            choice
            for chunk in self.chunks
            for choice in chunk.get("choices", [])
            if choice["index"] == index
        ]

    def finish_reasons(self, index: int = 0) -> list[object]:
        return [choice["finish_reason"] for choice in self.choices(index)]


def read_events(body: str) -> Events:
    """Parses a stream as a strict client does: data lines, comments, blank lines, no more."""
    chunks: list[Json] = []
    done = False
    for line in body.split("\n"):
        assert not done or not line, "nothing follows [DONE]"
        if line == "data: [DONE]":
            done = True
        elif line.startswith("data: "):
            chunks.append(json.loads(line.removeprefix("data: ")))
        else:
            assert not line or line.startswith(":"), f"no line of a stream: {line!r}"
    return Events(chunks, done)


def completion(prompt: object = "hello", **fields: object) -> Json:
    return {"model": MODEL, "prompt": prompt, "temperature": 0, **fields}


def chat(content: object = "hello", **fields: object) -> Json:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        **fields,
    }


def error_of(response: httpx.Response) -> Mapping[str, object]:
    """The error of an answer that wears the whole envelope and nothing else."""
    body = response.json()
    assert set(body) == {"error"}, body
    assert set(body["error"]) == {"message", "type", "param", "code"}, body
    return body["error"]


def _text(choice: Json) -> str:
    delta = choice.get("delta")
    return choice["text"] if delta is None else delta.get("content", "")
