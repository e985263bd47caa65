"""GET /health, /livez, /version, /metrics and, where asked for, /debug/pages."""

from dataclasses import asdict

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from server.api.app_context import context_of
from server.api.metrics import CONTENT_TYPE
from server.api.responding import json_response
from server.api.schemas.probe import Health, Liveness, Version
from server.version import version

router = APIRouter()
debug_router = APIRouter()


@router.get("/health")
async def health(request: Request) -> Response:
    """Red until the first request can be served, while draining, and after a fatal fault."""
    context_of(request).active.check_admission()
    return json_response(Health(status="ready"))


@router.get("/livez")
async def liveness() -> Response:
    return json_response(Liveness(status="alive"))


@router.get("/version")
async def show_version() -> Response:
    return json_response(Version(version=version()))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    return Response(context_of(request).metrics.render(), headers={"content-type": CONTENT_TYPE})


@debug_router.get("/debug/pages")
async def debug_pages(request: Request) -> Response:
    return JSONResponse(asdict(context_of(request).engine.snapshot()))
