"""The files of the live page. They hold no data, so they are open to all; the stream is not."""

from collections.abc import Mapping
from importlib.resources import files

from starlette.responses import Response

INDEX = "index.html"
MEDIA_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing from elsewhere, nothing inline, in no other page's frame.
HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_FOLDER = files("server.api.dashboard") / "page"
NAMES = frozenset(item.name for item in _FOLDER.iterdir()) - {INDEX}
PATHS = frozenset({"/", "/dashboard", *(f"/dashboard/{name}" for name in NAMES)})


def page_file(name: str) -> Response:
    """INDEX or one of NAMES."""
    suffix = name[name.rindex(".") :]
    headers = {**HEADERS, "content-type": MEDIA_TYPES[suffix]}
    return Response((_FOLDER / name).read_bytes(), headers=headers)
