"""API keys: where any is configured, every path asks for one but the probes and the live page."""

import hashlib
import hmac
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.dashboard.page_files import PATHS as PAGE_PATHS
from server.api.error_response import error_response
from server.errors import Unauthorized

OPEN_PATHS = PAGE_PATHS | {"/health", "/livez"}


class ApiKeys:
    """ASGI middleware. Digests of equal length are compared, each of them every time, so the
    time taken tells nothing of the keys."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._knows(scope):
            await self._app(scope, receive, send)
            return
        refusal = Unauthorized("A valid API key is needed: Authorization: Bearer KEY.")
        await error_response(refusal)(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        scheme, _, key = _authorization(scope).partition(b" ")
        digest = _digest(key.strip())
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return scheme.lower() == b"bearer" and any(matches)


def _authorization(scope: Scope) -> bytes:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value for name, value in headers if name == b"authorization"), b"")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
