"""Snapshots to one watcher, at the watcher's own speed."""

import asyncio
import logging

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.api.dashboard.feed import Ended, Shown, Watcher
from server.api.disconnect import wait_for_disconnect
from server.api.error_response import error_event
from server.api.sse import DONE, HEADERS

logger = logging.getLogger(__name__)


class SnapshotStream(Response):
    """Writes one snapshot and only then looks for another: none waits for a slow reader. Ends
    with [DONE], or with an error event. `write_seconds` is the longest one write may take."""

    def __init__(self, watcher: Watcher, write_seconds: float) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._watcher = watcher
        self._write_seconds = write_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        except TimeoutError:
            logger.warning("gave up a watcher who reads nothing")
        finally:
            self._watcher.leave()
            writing.cancel()
            leaving.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        """Raises TimeoutError where the watcher takes nothing for too long."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        more = True
        while more:
            sight = await self._watcher.look()
            more = isinstance(sight, Shown)
            async with asyncio.timeout(self._write_seconds):
                body = _event(sight)
                await send({"type": "http.response.body", "body": body, "more_body": more})


def _event(sight: Shown | Ended) -> bytes:
    if isinstance(sight, Shown):
        return b"data: " + sight.data + b"\n\n"
    return DONE if sight.error is None else error_event(sight.error)
