"""A few threads for work on text that would hold up the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from engine.errors import Overloaded

T = TypeVar("T")

INLINE_TOKENS = 256  # told with their log probabilities, about a millisecond's work


class Workers:
    """At most `max_pending` calls wait or run; more are refused, so nothing piles up unseen."""

    def __init__(self, threads: int = 2, max_pending: int = 256) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="octavo-text")
        self._max_pending = max_pending
        self._pending = 0

    async def run(self, work: Callable[[], T]) -> T:
        """`work()`, in a thread; raises what it raises, or Overloaded."""
        if self._pending >= self._max_pending:
            raise Overloaded("Too many requests are being read; try again later.")
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._pending -= 1

    async def run_if_large(self, num_tokens: int, work: Callable[[], T]) -> T:
        """`work()`, at once where it is about few tokens, else as `run` does."""
        return work() if num_tokens <= INLINE_TOKENS else await self.run(work)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
