"""A stream of snapshots to readers of every speed; the wire is the test's own."""

import asyncio

import pytest
from starlette.types import Message

from server.api.dashboard.feed import SnapshotFeed
from server.api.dashboard.snapshot_stream import SnapshotStream
from tests.support.snapshot_maker import Maker, turns

PATIENCE = 30.0  # seconds; only a hang takes so long


class Wire:
    """What a response sends, while the reader takes it; `block` makes the next send wait."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.left = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()

    def block(self) -> None:
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            self.bodies.append(message["body"])
            await self._open.wait()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}


def stream_of(
    feed: SnapshotFeed, wire: Wire, write_seconds: float = PATIENCE
) -> asyncio.Task[None]:
    stream = SnapshotStream(feed.join(), write_seconds)
    return asyncio.create_task(stream({}, wire.receive, wire.send))


async def made(maker: Maker, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while maker.made < number:
            await turns()


async def test_a_slow_reader_skips_snapshots_and_none_waits_for_it() -> None:
    maker, wire = Maker(), Wire()
    feed = SnapshotFeed(maker.make, seconds=0)
    wire.block()
    task = stream_of(feed, wire)
    for number in range(1, 5):
        maker.allow()
        await made(maker, number)
    assert wire.bodies == [b"data: 1\n\n"]
    wire.resume()
    await turns()
    maker.allow()
    await made(maker, 5)
    await turns()
    assert wire.bodies == [b"data: 1\n\n", b"data: 5\n\n"]
    feed.close()
    await task
    assert wire.bodies[-1] == b"data: [DONE]\n\n"


async def test_a_reader_that_takes_nothing_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    maker, wire = Maker(), Wire()
    feed = SnapshotFeed(maker.make, seconds=0, max_watchers=1)
    wire.block()
    maker.allow()
    async with asyncio.timeout(PATIENCE):
        await stream_of(feed, wire, write_seconds=0.01)
    assert "gave up a watcher" in caplog.text
    feed.join().leave()


async def test_a_reader_that_leaves_is_forgotten() -> None:
    maker, wire = Maker(), Wire()
    feed = SnapshotFeed(maker.make, seconds=0, max_watchers=1)
    task = stream_of(feed, wire)
    wire.left.set()
    async with asyncio.timeout(PATIENCE):
        await task
    feed.join().leave()


async def test_a_snapshot_that_fails_is_the_last_event() -> None:
    maker, wire = Maker(), Wire()
    maker.error = ValueError("not for clients")
    maker.allow()
    async with asyncio.timeout(PATIENCE):
        await stream_of(SnapshotFeed(maker.make, seconds=0), wire)
    (event,) = wire.bodies
    assert b'"code":"internal_error"' in event
    assert b"not for clients" not in event
