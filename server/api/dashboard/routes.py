"""GET /dashboard, the way there, its files, and the stream of snapshots that it shows."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from server.api.app_context import context_of
from server.api.dashboard.page_files import INDEX, NAMES, page_file
from server.api.dashboard.snapshot_stream import SnapshotStream
from server.errors import NoSuchRoute

router = APIRouter()


@router.get("/")
async def show_way() -> Response:
    """The address that the server prints when it starts, opened in a browser."""
    return RedirectResponse("/dashboard")


@router.get("/dashboard")
async def show_page() -> Response:
    return page_file(INDEX)


@router.get("/dashboard/snapshots")
async def watch(request: Request) -> Response:
    context = context_of(request)
    return SnapshotStream(context.feed.join(), context.stream_limits.write_seconds)


@router.get("/dashboard/{file}")
async def show_file(file: str) -> Response:
    if file not in NAMES:
        raise NoSuchRoute(f"There is no GET /dashboard/{file[:200]} here.")
    return page_file(file)
