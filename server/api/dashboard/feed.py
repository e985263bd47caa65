"""One snapshot at a time, made while somebody watches, and handed to all who do.

Nothing is kept for a watcher that is slow: it gets the next snapshot that is made once it asks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from engine.errors import Overloaded
from server.api.error_response import is_known

logger = logging.getLogger(__name__)

MAX_WATCHERS = 16
SNAPSHOT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Shown:
    """A snapshot as JSON."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """No more snapshots come; `error` says why, unless the server ends."""

    error: Exception | None = None


Sight = Shown | Ended


class SnapshotFeed:
    """The mutable state is the number of watchers, the sight that all of them await, and the task
    that makes it. `make` is awaited at most once in `seconds`."""

    def __init__(
        self,
        make: Callable[[], Awaitable[bytes]],
        seconds: float = SNAPSHOT_SECONDS,
        max_watchers: int = MAX_WATCHERS,
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._max_watchers = max_watchers
        self._num_watchers = 0
        self._next: asyncio.Future[Sight] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def num_watchers(self) -> int:
        return self._num_watchers

    def join(self) -> "Watcher":
        """One more watcher, who must leave. Raises Overloaded."""
        if self._closed:
            raise Overloaded("The server is shutting down.", retry_after=5)
        if self._num_watchers >= self._max_watchers:
            raise Overloaded(f"{self._num_watchers} already watch this server.", retry_after=5)
        self._num_watchers += 1
        return Watcher(self)

    def close(self) -> None:
        """Ends every watcher's stream; nobody may join any more."""
        self._closed = True
        self._end(Ended())

    async def look(self) -> Sight:
        """The next sight; the first to look sets the making going."""
        if self._closed:
            return Ended()
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="snapshots")
        return await asyncio.shield(self._next)

    def leave(self) -> None:
        self._num_watchers -= 1
        if not self._num_watchers:
            self._end(Ended())

    async def _run(self) -> None:
        try:
            while True:
                self._hand_out(Shown(await self._make()))
                await asyncio.sleep(self._seconds)
        except Exception as error:
            if not is_known(error):
                logger.exception("a snapshot failed")
            self._end(Ended(error))

    def _end(self, ended: Ended) -> None:
        self._hand_out(ended)
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _hand_out(self, sight: Sight) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(sight)
        self._next = None


class Watcher:
    """One reader of the feed."""

    def __init__(self, feed: SnapshotFeed) -> None:
        self._feed = feed
        self._has_left = False

    async def look(self) -> Sight:
        return await self._feed.look()

    def leave(self) -> None:
        """Idempotent."""
        if not self._has_left:
            self._has_left = True
            self._feed.leave()
