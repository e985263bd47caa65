"""The events of one request on their way from the engine's loop to whoever asked."""

import asyncio
from collections.abc import Callable

from engine.token_event import TokenEvent


class TokenStream:
    """An async iterator that ends when the request has ended or was closed.

    The queue holds at most the request's own tokens. `close` may be called at any time and more
    than once: it aborts what still runs.
    """

    def __init__(self, num_sequences: int, on_close: Callable[[], None]) -> None:
        self._queue: asyncio.Queue[TokenEvent | None] = asyncio.Queue()
        self._open_indexes = set(range(num_sequences))
        self._on_close = on_close
        self._is_closed = False

    def __aiter__(self) -> "TokenStream":
        return self

    async def __anext__(self) -> TokenEvent:
        event = None if self._is_closed and self._queue.empty() else await self._queue.get()
        if event is None:
            await self.aclose()
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._on_close()

    @property
    def has_ended(self) -> bool:
        return not self._open_indexes

    @property
    def open_indexes(self) -> frozenset[int]:
        """The sequences that have not ended."""
        return frozenset(self._open_indexes)

    def put(self, event: TokenEvent) -> None:
        self._queue.put_nowait(event)
        if event.finish_reason:
            self.drop(event.index)

    def drop(self, index: int | None = None) -> None:
        """No more events of one sequence, or of all, will come."""
        ended = self._open_indexes if index is None else {index}
        was_open = bool(self._open_indexes)
        self._open_indexes = self._open_indexes - ended
        if was_open and not self._open_indexes:
            self._queue.put_nowait(None)
