"""The HTTP app: routes, middleware and errors around one engine."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import EngineError
from server.api import chat, completions, models, probes, tokens
from server.api.active_requests import ActiveRequests
from server.api.api_keys import ApiKeys
from server.api.app_context import AppContext
from server.api.dashboard import routes as dashboard
from server.api.dashboard.feed import SNAPSHOT_SECONDS, SnapshotFeed
from server.api.dashboard.snapshot_maker import SnapshotMaker
from server.api.engine_client import EngineClient
from server.api.error_guard import ErrorGuard
from server.api.error_response import error_response
from server.api.metrics import Metrics
from server.api.prompt_encoder import PromptEncoder
from server.api.request_log import RequestLog, record_of
from server.api.request_record import Outcome
from server.api.sse import StreamLimits
from server.api.workers import Workers
from server.config import ServerConfig
from server.contract import openapi
from server.errors import ClientDisconnected, NoSuchRoute, ServerError, WrongMethod
from server.text.tokenizer import Tokenizer

ROUTERS = (
    completions.router,
    chat.router,
    models.router,
    tokens.router,
    probes.router,
    openapi.router,
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an app takes from the world around it; a test brings its own."""

    stream_limits: StreamLimits = field(default_factory=StreamLimits)
    wall_clock: Callable[[], float] = time.time  # seconds since 1970
    monotonic_clock: Callable[[], float] = time.monotonic
    snapshot_seconds: float = SNAPSHOT_SECONDS  # between two of the live view


def create_app(
    config: ServerConfig,
    engine: EngineClient,
    tokenizer: Tokenizer,
    metrics: Metrics,
    surroundings: Surroundings | None = None,
) -> FastAPI:
    """An app of its own state; several may live in one process.

    `metrics` must be fresh: it begins to show the engine's figures here. The engine loop may
    already report its steps to it.
    """
    around = surroundings or Surroundings()
    workers = Workers()
    active = ActiveRequests(engine, config.request_timeout)
    maker = SnapshotMaker(
        model=config.served_model_name,
        engine=engine,
        active=active,
        metrics=metrics,
        workers=workers,
        clock=around.monotonic_clock,
    )
    context = AppContext(
        config=config,
        engine=engine,
        tokenizer=tokenizer,
        metrics=metrics,
        active=active,
        feed=SnapshotFeed(maker.make, around.snapshot_seconds),
        workers=workers,
        encoder=PromptEncoder(tokenizer, workers, engine.limits),
        stream_limits=replace(around.stream_limits, keepalive_seconds=config.keepalive_seconds),
        wall_clock=around.wall_clock,
        started=int(around.wall_clock()),
    )
    metrics.watch(engine.stats)
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_no_telemetry(),
        lifespan=_lifespan,
    )
    app.state.context = context
    _add_routes(app, config)
    _add_error_answers(app)
    _add_middleware(app, config, metrics, around.monotonic_clock)
    return app


def _no_telemetry() -> TelemetryConfig:
    """The framework would send spans where environment variables say so; /metrics tells all there is."""
    return {
        "tracing": False,
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": False,
    }


def active_requests(app: FastAPI) -> ActiveRequests:
    """What a shutdown needs: to refuse new requests, wait for those under way, or end them."""
    context = app.state.context
    assert isinstance(context, AppContext), "set by create_app"
    return context.active


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.context.feed.close()
    app.state.context.workers.close()


def _add_routes(app: FastAPI, config: ServerConfig) -> None:
    for router in ROUTERS:
        app.include_router(router)
    if config.dashboard:
        app.include_router(dashboard.router)
    if config.debug_endpoints:
        app.include_router(probes.debug_router)


def _add_error_answers(app: FastAPI) -> None:
    app.add_exception_handler(EngineError, _answer)
    app.add_exception_handler(ServerError, _answer)
    app.add_exception_handler(ClientDisconnected, _answer_nobody)
    app.add_exception_handler(HTTPException, _answer_routing)


def _add_middleware(
    app: FastAPI, config: ServerConfig, metrics: Metrics, clock: Callable[[], float]
) -> None:
    """From the inside out: what is added later sees a request earlier."""
    if config.api_keys:
        app.add_middleware(ApiKeys, keys=config.api_keys)
    app.add_middleware(ErrorGuard)
    if config.cors_origins:
        # Never with credentials: a key travels in a header that the page itself must know.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=("x-request-id", "retry-after"),
        )
    app.add_middleware(RequestLog, metrics=metrics, clock=clock)


async def _answer(_: Request, error: Exception) -> Response:
    return error_response(error)


async def _answer_nobody(request: Request, _: Exception) -> Response:
    record_of(request).outcome = Outcome.CANCELLED
    return Response(status_code=499)  # nobody is there to read it


async def _answer_routing(request: Request, error: Exception) -> Response:
    """What the router refuses: an unknown path or a wrong method."""
    assert isinstance(error, HTTPException), "registered for it alone"
    method, path = request.method, request.url.path[:200]
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return error_response(WrongMethod(f"{method} is not allowed on {path}.", allowed))
    return error_response(NoSuchRoute(f"There is no {method} {path} here."))
