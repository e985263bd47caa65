"""All that the HTTP side knows of an engine: token ids and events, never arrays."""

from collections.abc import AsyncIterator
from typing import Protocol

from engine.engine_stats import EngineLimits, EngineStats, EngineStatus
from engine.engine_view import EngineView
from engine.pool_snapshot import PoolSnapshot
from engine.request import Request
from engine.token_event import TokenEvent


class EngineClient(Protocol):
    """The engine as its client sees it; every method is called on the event loop."""

    @property
    def status(self) -> EngineStatus: ...

    @property
    def limits(self) -> EngineLimits: ...

    def stats(self) -> EngineStats: ...

    def submit(self, request: Request) -> AsyncIterator[TokenEvent]:
        """Admits the request at the call; raises InvalidRequest, PromptTooLong, Overloaded or
        EngineDead at once. The iterator yields the events of all n sequences, then ends."""
        ...

    def abort(self, request_id: str, index: int | None = None) -> None:
        """Ends a request, or one sequence of it, without a further event. Idempotent."""
        ...

    def snapshot(self) -> PoolSnapshot:
        """The page pool, page by page."""
        ...

    def view(self) -> EngineView:
        """Who holds which pages and how far each sequence is; cheap to take."""
        ...
