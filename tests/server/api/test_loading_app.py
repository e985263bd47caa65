"""The app in front, where the end of the server cuts a request off."""

import asyncio
import json

import pytest
from starlette.types import Message, Receive, Scope, Send

from server.loading_app import LoadingApp

START: Message = {"type": "http.response.start", "status": 200, "headers": []}


@pytest.mark.parametrize("started", [False, True])
async def test_a_request_that_the_end_cuts_off_is_refused_if_nothing_was_said(
    *, started: bool
) -> None:
    sent: list[Message] = []
    waits = asyncio.Event()

    async def stuck(_: Scope, receive: Receive, send: Send) -> None:
        if started:
            await send(START)
        waits.set()
        await receive()

    async def receive() -> Message:
        return await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    app = LoadingApp()
    app.serve_with(stuck)
    task = asyncio.create_task(app({"type": "http", "path": "/"}, receive, send))
    await waits.wait()
    task.cancel()
    await task
    assert sent[0]["status"] == (200 if started else 503)
    if not started:
        assert json.loads(sent[1]["body"])["error"]["code"] == "overloaded"
    else:
        assert len(sent) == 1
