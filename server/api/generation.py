"""The engine requests of one HTTP request: admitted all or none, read as one stream of events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from engine.request import Request
from engine.token_event import TokenEvent
from server.api.engine_client import EngineClient


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event and the prompt it belongs to."""

    prompt_index: int
    event: TokenEvent


class Generation:
    """Owns the engine requests from admission to `close`, which aborts what still runs.

    The mutable state is the inbox, which the readers fill and `events` empties, and the readers
    themselves: one task per engine request.
    """

    def __init__(
        self,
        engine: EngineClient,
        requests: Sequence[Request],
        on_close: Callable[["Generation"], None],
    ) -> None:
        self._engine = engine
        self._requests = requests
        self._on_close = on_close
        self._inbox: asyncio.Queue[Arrival | Exception] = asyncio.Queue()
        self._readers: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def request_ids(self) -> tuple[str, ...]:
        return tuple(request.request_id for request in self._requests)

    def start(self) -> None:
        """Submits every request, or raises what the engine said of the first one refused."""
        streams: list[AsyncIterator[TokenEvent]] = []
        try:
            for request in self._requests:
                streams.append(self._engine.submit(request))
        except Exception:
            self._abort(self._requests[: len(streams)])
            raise
        self._readers = [
            asyncio.create_task(self._read(index, stream)) for index, stream in enumerate(streams)
        ]

    async def events(self) -> AsyncIterator[Arrival]:
        """Events of all requests as they arrive; raises what `fail` or the engine raised."""
        while True:
            item = await self._inbox.get()
            if isinstance(item, Exception):
                raise item
            yield item

    def fail(self, error: Exception) -> None:
        """Ends `events` with `error`, after what has arrived."""
        self._inbox.put_nowait(error)

    def fail_after(self, seconds: float, error: Exception) -> None:
        """`fail(error)` once `seconds` have passed, unless closed before."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self.fail, error)

    def stop_sequence(self, prompt_index: int, index: int) -> None:
        """Ends one sequence: its text is complete though its tokens are not."""
        self._engine.abort(self._requests[prompt_index].request_id, index)

    async def close(self) -> None:
        """Aborts what still runs. Idempotent; safe against cancellation."""
        if self._timer is not None:
            self._timer.cancel()
        self._abort(self._requests)
        self._on_close(self)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    def _abort(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._engine.abort(request.request_id)

    async def _read(self, prompt_index: int, stream: AsyncIterator[TokenEvent]) -> None:
        try:
            async for event in stream:
                self._inbox.put_nowait(Arrival(prompt_index, event))
        except Exception as error:  # noqa: BLE001 - handed to whoever reads the events
            self._inbox.put_nowait(error)
