"""One life of the server: load the model, serve it, and drain when told to stop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import uvicorn
from fastapi import FastAPI

from server.api.app import active_requests, create_app
from server.api.engine_client import EngineClient
from server.api.metrics import Metrics
from server.config import ServeConfig
from server.listener import Listener
from server.loading_app import LoadingApp
from server.standard_output import OutputError, ReaderLeft, standard_output
from server.stop_request import StopRequest
from server.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)

FAILED = 1
_LAST_WORDS = 1  # seconds for error events to reach their readers, once all requests have ended


class RunningEngine(EngineClient, Protocol):
    """An engine with a life of its own."""

    async def wait_ended(self) -> None:
        """Returns when it serves no more, whatever the reason."""
        ...

    async def stop(self, grace: float) -> None:
        """Ends what runs, after `grace` seconds at the latest, and then itself."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that can serve. `report` says so in the log."""

    engine: RunningEngine
    tokenizer: Tokenizer
    report: Callable[[], None]


Loader = Callable[[Metrics], Awaitable[Loaded]]


class Service:
    """Answers on the listener from `run` on: 503 while `load` works, then the real app."""

    def __init__(self, config: ServeConfig, listener: Listener, load: Loader) -> None:
        self._config = config
        self._listener = listener
        self._load = load
        self._metrics = Metrics()
        self._front = LoadingApp()
        self._stop = StopRequest(listener.close)
        self._http = _HttpServer(_uvicorn_config(config, self._front))

    async def run(self) -> int:
        """Returns the exit code: 0 after a signal, 1 after a fatal fault. Raises what `load` raises."""
        with self._stop.on_signals():
            accepting = asyncio.create_task(self._http.serve([self._listener.socket]))
            try:
                return await self._serve(await self._loaded())
            finally:
                self._http.should_exit = True
                await accepting

    async def _loaded(self) -> Loaded:
        """A signal meanwhile ends the process there: loading cannot be interrupted otherwise."""
        loading = asyncio.ensure_future(self._load(self._metrics))
        if await self._stop.comes_before(loading):
            log.info("stopped while the model was loading")
            self._stop.exit_at_once()
        return await loading

    async def _serve(self, loaded: Loaded) -> int:
        engine = loaded.engine
        app = create_app(self._config.http, engine, loaded.tokenizer, self._metrics)
        async with app.router.lifespan_context(app):
            self._front.serve_with(app)
            loaded.report()
            _greet(_greeting(self._config, self._listener))
            if await self._stop.comes_before(asyncio.ensure_future(engine.wait_ended())):
                await self._drain(app, engine)
                return 0
            log.error("the engine has stopped after a fault; the server ends")
            await _at_most(_LAST_WORDS, active_requests(app).wait_idle())
            return FAILED

    async def _drain(self, app: FastAPI, engine: RunningEngine) -> None:
        """Refuses what is new, waits for what runs, and ends what takes longer with an error."""
        active = active_requests(app)
        grace = self._config.grace_seconds
        log.info("stopping: running requests have at most %g s to end", grace)
        active.refuse_new()
        await _at_most(grace, active.wait_idle())
        active.end_all()
        await engine.stop(0)
        await _at_most(_LAST_WORDS, active.wait_idle())
        log.info("stopped")


def _greet(text: str) -> None:
    """To whoever reads the standard output; a server does without, for its log tells the same."""
    with suppress(OutputError, ReaderLeft), standard_output() as out:
        print(text, file=out, flush=True)


def _greeting(config: ServeConfig, listener: Listener) -> str:
    told = f"Octavo serves {config.http.served_model_name} on {listener.url}"
    if not config.http.dashboard or listener.unix_socket is not None:
        return told
    return f"{told} (live view: {listener.url}/dashboard)"


class _HttpServer(uvicorn.Server):
    """uvicorn without its own signal handling, which would end the process by the signal."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn_config(config: ServeConfig, app: LoadingApp) -> uvicorn.Config:
    tls = config.listen.tls
    return uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level=max(logging.WARNING, logging.root.level),
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_LAST_WORDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )


async def _at_most(seconds: float, waiting: Coroutine[None, None, None]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(waiting, seconds)
