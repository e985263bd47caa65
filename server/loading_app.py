"""The app in front of the app: it answers in the place of the other while the model loads, and
where the end of the server cuts a request off."""

import asyncio

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.errors import Overloaded
from server.api.error_response import error_response

_RETRY_AFTER = 5  # seconds


class LoadingApp:
    """Answers 503 until `serve_with` names the app that serves from then on."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None

    def serve_with(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app or _answer(scope["path"])
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await answer(scope, receive, watch)
        except asyncio.CancelledError:
            # The server ends, and this client still sends its request or does not read its answer.
            if not started:
                refusal = Overloaded("The server is shutting down.", _RETRY_AFTER)
                await error_response(refusal)(scope, receive, send)


def _answer(path: str) -> Response:
    if path == "/livez":
        return JSONResponse({"status": "alive"})
    return error_response(Overloaded("The model is still loading.", _RETRY_AFTER))
