"""One id, one record and one log line for every HTTP request, whatever becomes of it."""

import logging
import re
import secrets
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.metrics import Metrics
from server.api.request_record import RequestRecord

logger = logging.getLogger("server.requests")

RECORD = "octavo.record"
PROBES = frozenset({"/health", "/livez", "/metrics"})
CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestLog:
    """ASGI middleware, the outermost: streams and errors pass through it too.

    A client's X-Request-Id is echoed where it is short and plain, else replaced. It is a label
    in the log and nothing more.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = RequestRecord(
            _request_id(scope), scope["method"], scope["path"], self._clock, self._metrics
        )
        scope[RECORD] = record

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = record.request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            record.finish()
            level = logging.DEBUG if record.path in PROBES else logging.INFO
            logger.log(level, "%s", record, extra={"record": record})


def record_of(request: Request) -> RequestRecord:
    record = request.scope[RECORD]
    assert isinstance(record, RequestRecord), "set by RequestLog"
    return record


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get("x-request-id", "")
    return given if CLIENT_ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"
