"""Server-sent events to one client, who may read slowly, or leave.

A producer task turns the answer into events and puts them into a bounded buffer, so that nobody
waits for this client; the response takes them out at the client's own speed. Where the buffer stays
full, the request is aborted and the stream ends with an error event. A comment line goes out for
every `keepalive_seconds` in which nothing else did.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from server.api.disconnect import wait_for_disconnect
from server.api.error_response import error_event, is_known
from server.api.request_record import Outcome, RequestRecord
from server.errors import SlowReader

logger = logging.getLogger(__name__)

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
HEADERS: Mapping[str, str] = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # a proxy must not hold events back
}


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """`max_buffered_bytes` may wait for a client, who has `full_seconds` to make room for more;
    `write_seconds` is the longest one write may take before the connection is given up."""

    keepalive_seconds: float = 10.0
    max_buffered_bytes: int = 1024 * 1024
    full_seconds: float = 5.0  # many choices with logprobs are megabytes in one step
    write_seconds: float = 60.0


class EventBuffer:
    """Bytes between one producer and one consumer; an event larger than all of it goes alone."""

    def __init__(self, max_bytes: int, full_seconds: float) -> None:
        self._max_bytes = max_bytes
        self._full_seconds = full_seconds
        self._waiting: list[bytes] = []
        self._size = 0
        self._closed = False
        self._quiet = False  # nothing came since the last look
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """Waits for room. Raises SlowReader where the consumer makes none in time."""
        if not self._has_room(len(data)):
            await self._wait_for_room(len(data))
        if not self._closed:
            self._append(data)

    def close(self, last: bytes = b"") -> None:
        """Nothing more will come but `last`, which finds room in any case."""
        if not self._closed:
            self._append(last)
            self._closed = True

    def abandon(self) -> bool:
        """Ends the stream at once, unread; whether there was anything still to come."""
        was_open = not self._closed
        self._waiting.clear()
        self._closed = True
        self._changed.set()
        self._taken.set()
        return was_open

    def keep_alive(self) -> None:
        """Puts a comment line, if nothing else came since the last call."""
        if self._quiet and not self._waiting and not self._closed:
            self._append(KEEP_ALIVE)
        self._quiet = True

    async def take(self) -> bytes:
        """All that waits, as soon as there is any; b"" at the end."""
        while not self._waiting and not self._closed:
            self._changed.clear()
            await self._changed.wait()
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._taken.set()
        return data

    def _has_room(self, size: int) -> bool:
        return self._closed or not self._waiting or self._size + size <= self._max_bytes

    async def _wait_for_room(self, size: int) -> None:
        try:
            async with asyncio.timeout(self._full_seconds):
                while not self._has_room(size):
                    self._taken.clear()
                    await self._taken.wait()
        except TimeoutError as error:
            raise SlowReader(
                f"The stream was not read: {self._size} bytes waited "
                f"for more than {self._full_seconds:g} seconds."
            ) from error

    def _append(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self._quiet = False
        self._changed.set()


class EventStream(Response):
    """Status and headers at once, then the events until [DONE] or an error event.

    `events` yields whole events; `close` frees what they are made from, is idempotent and is
    called in any case.
    """

    def __init__(
        self,
        events: AsyncIterator[bytes],
        close: Callable[[], Awaitable[None]],
        limits: StreamLimits,
        record: RequestRecord,
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._close = close
        self._limits = limits
        self._record = record
        self._buffer = EventBuffer(limits.max_buffered_bytes, limits.full_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        tasks = [
            asyncio.create_task(self._produce()),
            asyncio.create_task(self._watch(receive)),
            asyncio.create_task(self._keep_alive()),
        ]
        try:
            await self._write(send)
        except TimeoutError:
            self._record.outcome = Outcome.FAILED
            logger.warning("gave up a stream whose client reads nothing: %s", self._record)
        except asyncio.CancelledError:  # the server ends and waits no longer
            self._record.outcome = Outcome.FAILED
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close()

    async def _produce(self) -> None:
        try:
            async for event in self._events:
                await self._buffer.put(event)
            self._buffer.close(DONE)
        except Exception as error:
            self._record.outcome = Outcome.FAILED
            if not is_known(error):
                logger.exception("a stream failed: %s", self._record)
            self._buffer.close(error_event(error))
        finally:
            await self._close()

    async def _watch(self, receive: Receive) -> None:
        await wait_for_disconnect(receive)
        if self._buffer.abandon():
            self._record.outcome = Outcome.CANCELLED

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._limits.keepalive_seconds)
            self._buffer.keep_alive()

    async def _write(self, send: Send) -> None:
        """Raises TimeoutError where the client takes nothing for too long."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        while data := await self._buffer.take():
            async with asyncio.timeout(self._limits.write_seconds):
                await send(_body(data, more=True))
        await send(_body(b"", more=False))


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}
