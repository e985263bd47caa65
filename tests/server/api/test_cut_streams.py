"""Streams that the end of the server cuts off."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from server.api.metrics import Metrics
from server.api.request_record import Outcome, RequestRecord
from server.api.sse import EventStream, StreamLimits


async def test_a_stream_that_is_cut_off_has_failed_and_frees_what_it_holds() -> None:
    ticks = itertools.count()
    record = RequestRecord("r", "POST", "/v1/completions", lambda: float(next(ticks)), Metrics())
    writing = asyncio.Event()
    closed = asyncio.Event()

    async def events() -> AsyncIterator[bytes]:
        yield b"data: {}\n\n"

    async def close() -> None:
        closed.set()

    async def never_leaves() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    async def never_read(_message: object) -> None:
        writing.set()
        await asyncio.Event().wait()

    stream = EventStream(events(), close, StreamLimits(), record)
    call = asyncio.create_task(stream({"type": "http"}, never_leaves, never_read))  # type: ignore[arg-type]
    await writing.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert record.outcome is Outcome.FAILED
    assert closed.is_set()
