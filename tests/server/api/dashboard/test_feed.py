"""One snapshot for all watchers, none for nobody."""

import asyncio
import logging

import pytest

from engine.errors import Overloaded
from server.api.dashboard.feed import Ended, Shown, SnapshotFeed
from tests.support.snapshot_maker import Maker, turns

PATIENCE = 30.0  # seconds; only a hang takes so long


@pytest.fixture
def maker() -> Maker:
    return Maker()


def feed_of(maker: Maker, max_watchers: int = 16) -> SnapshotFeed:
    return SnapshotFeed(maker.make, seconds=0, max_watchers=max_watchers)


async def test_nothing_is_made_while_nobody_watches(maker: Maker) -> None:
    feed_of(maker)
    maker.allow()
    await turns()
    assert maker.asked == 0


async def test_all_watchers_see_the_same_snapshot(maker: Maker) -> None:
    feed = feed_of(maker)
    watchers = [feed.join() for _ in range(3)]
    looks = [asyncio.create_task(watcher.look()) for watcher in watchers]
    await turns()
    maker.allow()
    async with asyncio.timeout(PATIENCE):
        assert await asyncio.gather(*looks) == [Shown(b"1")] * 3
    assert maker.made == 1
    feed.close()


async def test_a_slow_watcher_skips_what_it_did_not_look_at(maker: Maker) -> None:
    feed = feed_of(maker)
    watcher = feed.join()
    maker.allow()
    async with asyncio.timeout(PATIENCE):
        assert await watcher.look() == Shown(b"1")
    maker.allow()
    maker.allow()
    while maker.made < 3:
        await turns()
    look = asyncio.create_task(watcher.look())
    await turns()
    maker.allow()
    async with asyncio.timeout(PATIENCE):
        assert await look == Shown(b"4")
    feed.close()


async def test_the_last_to_leave_stops_the_making_and_the_next_starts_it_again(
    maker: Maker,
) -> None:
    feed = feed_of(maker)
    first, second = feed.join(), feed.join()
    maker.allow()
    async with asyncio.timeout(PATIENCE):
        assert await first.look() == Shown(b"1")
    first.leave()
    first.leave()
    await turns()
    assert maker.asked == 2
    second.leave()
    await turns()
    asked = maker.asked
    maker.allow()
    await turns()
    assert (maker.made, maker.asked) == (1, asked)
    third = feed.join()
    look = asyncio.create_task(third.look())
    async with asyncio.timeout(PATIENCE):
        assert await look == Shown(b"2")
    feed.close()


async def test_too_many_watchers_are_refused_until_one_leaves(maker: Maker) -> None:
    feed = feed_of(maker, max_watchers=1)
    watcher = feed.join()
    with pytest.raises(Overloaded, match="1 already watch"):
        feed.join()
    watcher.leave()
    feed.join().leave()


async def test_at_the_end_every_watcher_is_told_and_nobody_joins(maker: Maker) -> None:
    feed = feed_of(maker)
    watcher = feed.join()
    look = asyncio.create_task(watcher.look())
    await turns()
    feed.close()
    async with asyncio.timeout(PATIENCE):
        assert await look == Ended()
        assert await watcher.look() == Ended()
    watcher.leave()
    with pytest.raises(Overloaded, match="shutting down"):
        feed.join()


@pytest.mark.parametrize(("error", "logged"), [(Overloaded("busy"), 0), (ValueError("x"), 1)])
async def test_a_snapshot_that_fails_ends_the_streams_and_the_next_watcher_starts_anew(
    maker: Maker, error: Exception, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    feed = feed_of(maker)
    watcher = feed.join()
    look = asyncio.create_task(watcher.look())
    await turns()
    maker.error = error
    maker.allow()
    with caplog.at_level(logging.ERROR):
        async with asyncio.timeout(PATIENCE):
            assert await look == Ended(error)
    assert len(caplog.records) == logged
    watcher.leave()
    maker.error = None
    maker.allow()
    async with asyncio.timeout(PATIENCE):
        assert await feed.join().look() == Shown(b"1")
    feed.close()
