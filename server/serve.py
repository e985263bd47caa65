"""`octavo serve`: the port first, then the model, then requests until someone says stop."""

import asyncio
import logging
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from engine.build import build_engine
from engine.device import report_device, select_device
from engine.engine_loop import EngineLoop
from server.app import active_requests, create_app
from server.config import ServeConfig
from server.listener import Listener, ListenError, listen
from server.loading_app import LoadingApp
from server.local_engine import LocalEngine
from server.logs import configure_logging
from server.metrics import Metrics
from server.model_store import ModelSource, resolve_model
from server.start_report import report_start
from server.stop_request import StopRequest
from server.tokenizer import Tokenizer
from server.tokenizer_loading import load_tokenizer

log = logging.getLogger(__name__)

FAILED = 1
_LAST_WORDS = 1  # seconds for error events to reach their readers, once all requests have ended


def serve(config: ServeConfig) -> int:
    """Runs the server to its end and returns the exit code. Raises ModelError before it serves."""
    configure_logging(config.log)
    try:
        listener = listen(config.listen)
    except ListenError as error:
        print(f"octavo: {error}", file=sys.stderr)
        return FAILED
    try:
        source = resolve_model(config.model)
        config = _named(config, source)
        return asyncio.run(_Service(config, source, listener).run())
    finally:
        listener.close()


def _named(config: ServeConfig, source: ModelSource) -> ServeConfig:
    name = config.http.served_model_name or source.name
    return replace(config, http=replace(config.http, served_model_name=name))


class _HttpServer(uvicorn.Server):
    """uvicorn without its own signal handling, which would end the process by the signal."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Service:
    """One life of the server: load, serve, drain."""

    def __init__(self, config: ServeConfig, source: ModelSource, listener: Listener) -> None:
        self._config = config
        self._source = source
        self._listener = listener
        self._metrics = Metrics()
        self._front = LoadingApp()
        self._stop = StopRequest(listener.close)
        self._http = _HttpServer(_uvicorn_config(config, self._front))

    async def run(self) -> int:
        with self._stop.on_signals():
            accepting = asyncio.create_task(self._http.serve([self._listener.socket]))
            try:
                engine, tokenizer = await self._load()
                return await self._serve(engine, tokenizer)
            finally:
                self._http.should_exit = True
                await accepting

    async def _load(self) -> tuple[EngineLoop, Tokenizer]:
        """The engine, running; a signal meanwhile ends the process, as nothing can interrupt it."""
        log.info("loading %s; listening on %s", self._source.path, self._listener.url)
        loading = asyncio.create_task(self._load_model())
        if await self._stop.comes_before(loading):
            log.info("stopped while the model was loading")
            self._stop.exit_at_once()
        return await loading

    async def _load_model(self) -> tuple[EngineLoop, Tokenizer]:
        path = self._source.path
        tokenizer = await asyncio.to_thread(load_tokenizer, path)
        select_device(self._config.device, self._config.threads)
        return await build_engine(path, self._config.engine, self._metrics), tokenizer

    async def _serve(self, engine: EngineLoop, tokenizer: Tokenizer) -> int:
        app = create_app(self._config.http, LocalEngine(engine), tokenizer, self._metrics)
        async with app.router.lifespan_context(app):
            self._front.serve_with(app)
            report_start(self._config, self._source, report_device(), engine.limits, engine.stats())
            name = self._config.http.served_model_name
            print(f"Octavo serves {name} on {self._listener.url}", flush=True)
            ended = asyncio.create_task(engine.wait_ended())
            if await self._stop.comes_before(ended):
                await self._drain(app, engine)
                return 0
            log.error("the engine has stopped after a fault; the server ends")
            await _at_most(_LAST_WORDS, active_requests(app).wait_idle())
            return FAILED

    async def _drain(self, app: FastAPI, engine: EngineLoop) -> None:
        """Refuses what is new, waits for what runs, and ends what takes longer with an error."""
        active = active_requests(app)
        grace = self._config.grace_seconds
        log.info("stopping: running requests have %g seconds to end", grace)
        active.refuse_new()
        await _at_most(grace, active.wait_idle())
        active.end_all()
        await engine.stop(0)
        await _at_most(_LAST_WORDS, active.wait_idle())
        log.info("stopped")


def _uvicorn_config(config: ServeConfig, app: LoadingApp) -> uvicorn.Config:
    tls = config.listen.tls
    return uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        log_level=max(logging.WARNING, logging.root.level),
        timeout_graceful_shutdown=_LAST_WORDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )


async def _at_most(seconds: float, waiting: Coroutine[None, None, None]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(waiting, seconds)
