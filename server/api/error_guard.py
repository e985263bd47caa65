"""The last resort: an unforeseen error becomes a 500 in the envelope, logged once."""

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.error_response import error_response

logger = logging.getLogger(__name__)


class ErrorGuard:
    """ASGI middleware, inside the one for CORS, so that browsers may read the 500 too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:
            if scope["type"] != "http" or started:
                raise
            logger.exception("an unforeseen error at %s", scope["path"])
            await error_response(error)(scope, receive, send)
