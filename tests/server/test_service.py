"""The server's life: 503 while it loads, work while it runs, a polite end when it is told to stop."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from engine.config import Device, EngineConfig
from engine.engine_stats import EngineStatus
from engine.errors import ModelError
from server.api.metrics import Metrics
from server.config import ListenConfig, LogConfig, ServeConfig, ServerConfig
from server.listener import listen
from server.service import Loaded, Service
from server.text.tokenizer import Tokenizer
from tests.support.fake_engine import FakeEngine
from tests.support.full_output import full_output
from tests.support.signals import taken

PATIENCE = 30.0  # seconds; only a hang takes so long
SHORT_GRACE = 0.05


class EndingEngine(FakeEngine):
    """A fake engine that can be stopped, and can die."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self._ended = asyncio.Event()

    async def wait_ended(self) -> None:
        await self._ended.wait()

    async def stop(self, grace: float) -> None:
        assert grace == 0, "the HTTP side has waited already"
        self.die()

    def die(self) -> None:
        self.status = EngineStatus.DEAD
        for call in self.live:
            call.close()
        self._ended.set()


@dataclass
class Running:
    client: httpx.AsyncClient
    task: "asyncio.Task[int]"
    loading: "asyncio.Future[Loaded]"
    address: tuple[str, int]

    async def exit_code(self) -> int:
        return await asyncio.wait_for(asyncio.shield(self.task), PATIENCE)

    def stream(self, prompt: str, max_tokens: int = 8) -> "asyncio.Task[list[str]]":
        return asyncio.create_task(self._stream(prompt, max_tokens))

    async def _stream(self, prompt: str, max_tokens: int) -> list[str]:
        body = {"model": "m", "prompt": prompt, "max_tokens": max_tokens, "stream": True}
        async with self.client.stream("POST", "/v1/completions", json=body) as answer:
            return [line[6:] async for line in answer.aiter_lines() if line.startswith("data: ")]


@asynccontextmanager
async def running(grace: float = PATIENCE) -> AsyncIterator[Running]:
    """A service whose model is loaded when the test sets `loading`."""
    config = ServeConfig(
        model="m",
        listen=ListenConfig(port=0),
        http=ServerConfig(served_model_name="m"),
        engine=EngineConfig(kv_cache_bytes=1),
        device=Device.CPU,
        threads=None,
        grace_seconds=grace,
        log=LogConfig(),
    )
    loading: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()

    async def load(_: Metrics) -> Loaded:
        return await loading

    listener = listen(config.listen)
    task = asyncio.create_task(Service(config, listener, load).run())
    async with httpx.AsyncClient(base_url=listener.url, timeout=PATIENCE) as client:
        yield Running(client, task, loading, listener.socket.getsockname())
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait({task}, timeout=PATIENCE)


@asynccontextmanager
async def serving(
    engine: FakeEngine, tokenizer: Tokenizer, grace: float = PATIENCE
) -> AsyncIterator[Running]:
    async with running(grace) as service:
        service.loading.set_result(Loaded(engine, tokenizer, lambda: None))  # type: ignore[arg-type]
        while (await service.client.get("/health")).status_code != 200:
            pass
        yield service


async def test_while_the_model_loads_every_request_is_answered_at_once(
    tokenizer: Tokenizer,
) -> None:
    """Case E08."""
    async with running() as service:
        for path in ("/health", "/v1/models", "/v1/completions"):
            answer = await service.client.post(path, json={})
            assert answer.status_code == 503
            assert answer.json()["error"]["message"] == "The model is still loading."
            assert answer.headers["retry-after"] == "5"
        assert (await service.client.get("/livez")).status_code == 200
        service.loading.set_result(Loaded(EndingEngine(tokenizer), tokenizer, lambda: None))
        while (await service.client.get("/health")).status_code != 200:
            pass
        assert (await service.client.get("/v1/models")).json()["data"][0]["id"] == "m"


async def test_a_model_that_cannot_be_loaded_ends_the_server_and_frees_the_port() -> None:
    """Case E08."""
    async with running() as service:
        await service.client.get("/livez")
        service.loading.set_exception(ModelError("x: no such file"))
        with pytest.raises(ModelError, match="no such file"):
            await service.exit_code()
        with pytest.raises(OSError, match=r".*"):
            await asyncio.open_connection(*service.address)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_an_idle_server_ends_well_on_every_signal_to_stop(
    tokenizer: Tokenizer, number: signal.Signals
) -> None:
    engine = EndingEngine(tokenizer)
    with taken(number, signal.SIG_DFL):
        async with serving(engine, tokenizer) as service:
            os.kill(os.getpid(), number)
            assert await service.exit_code() == 0
    assert engine.status is EngineStatus.DEAD


async def test_a_server_that_nohup_started_outlives_a_hangup(tokenizer: Tokenizer) -> None:
    engine = EndingEngine(tokenizer)
    with taken(signal.SIGHUP, signal.SIG_IGN):
        async with serving(engine, tokenizer) as service:
            os.kill(os.getpid(), signal.SIGHUP)
            stream = service.stream("hello", max_tokens=4)
            assert (await stream)[-1] == "[DONE]"
            assert (await service.client.get("/health")).status_code == 200


async def test_a_server_whose_greeting_cannot_be_printed_serves_on(tokenizer: Tokenizer) -> None:
    with full_output():
        async with serving(EndingEngine(tokenizer), tokenizer) as service:
            stream = service.stream("hello", max_tokens=4)
            assert (await stream)[-1] == "[DONE]"


async def test_running_requests_end_in_peace_while_new_ones_are_refused(
    tokenizer: Tokenizer,
) -> None:
    """Case F08."""
    engine = EndingEngine(tokenizer)
    engine.pause()
    async with serving(engine, tokenizer) as service:
        stream = service.stream("hello", max_tokens=4)
        await engine.submitted(1)
        os.kill(os.getpid(), signal.SIGTERM)
        while (await service.client.get("/health")).status_code == 200:
            pass
        refused = await service.client.post(
            "/v1/completions", json={"model": "m", "prompt": "x", "max_tokens": 1}
        )
        assert refused.status_code == 503
        assert "shutting down" in refused.json()["error"]["message"]
        await engine.advance(4)
        events = await stream
        assert events[-1] == "[DONE]"
        assert json.loads(events[-2])["choices"][0]["finish_reason"] == "length"
        assert await service.exit_code() == 0


async def test_a_request_that_outlasts_the_grace_is_told_so(tokenizer: Tokenizer) -> None:
    """Case F08."""
    engine = EndingEngine(tokenizer)
    engine.pause()
    async with serving(engine, tokenizer, SHORT_GRACE) as service:
        stream = service.stream("hello", max_tokens=4)
        await engine.submitted(1)
        await engine.advance(1)
        os.kill(os.getpid(), signal.SIGTERM)
        events = await stream
        assert "shutting down" in json.loads(events[-1])["error"]["message"]
        assert await service.exit_code() == 0
    assert engine.live == []


async def test_an_idle_connection_does_not_hold_the_end_up(tokenizer: Tokenizer) -> None:
    """Case F08."""
    async with serving(EndingEngine(tokenizer), tokenizer) as service:
        _, writer = await asyncio.open_connection(*service.address)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await service.exit_code() == 0
        writer.close()


async def test_somebody_who_watches_does_not_hold_the_end_up(tokenizer: Tokenizer) -> None:
    engine = EndingEngine(tokenizer)
    engine.pause()
    async with serving(engine, tokenizer) as service:
        request = service.stream("hello", max_tokens=1)
        await engine.submitted(1)
        async with service.client.stream("GET", "/dashboard/snapshots") as answer:
            os.kill(os.getpid(), signal.SIGTERM)
            lines = (line async for line in answer.aiter_lines() if line)
            async for line in lines:
                if '"status":"draining"' in line:
                    break
            await engine.advance(1)
            assert [line async for line in lines][-1] == "data: [DONE]"
        await request
        assert await service.exit_code() == 0


async def test_a_dead_engine_ends_the_server_with_a_fault(tokenizer: Tokenizer) -> None:
    """Case C12: a supervisor sees it."""
    engine = EndingEngine(tokenizer)
    async with serving(engine, tokenizer) as service:
        engine.die()
        assert await service.exit_code() == 1
