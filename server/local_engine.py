"""The engine loop of this process, as the HTTP side sees it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict

from engine.engine_loop import EngineLoop
from engine.engine_stats import EngineLimits, EngineStats, EngineStatus
from engine.request import Request
from engine.token_event import TokenEvent


class LocalEngine:
    """A `RunningEngine`; every call goes straight to the loop."""

    def __init__(self, loop: EngineLoop) -> None:
        self._loop = loop

    @property
    def status(self) -> EngineStatus:
        return self._loop.status

    @property
    def limits(self) -> EngineLimits:
        return self._loop.limits

    def stats(self) -> EngineStats:
        return self._loop.stats()

    def submit(self, request: Request) -> AsyncIterator[TokenEvent]:
        return self._loop.submit(request)

    def abort(self, request_id: str, index: int | None = None) -> None:
        self._loop.abort(request_id, index)

    def debug_pages(self) -> Mapping[str, object]:
        return asdict(self._loop.snapshot())

    async def wait_ended(self) -> None:
        await self._loop.wait_ended()

    async def stop(self, grace: float) -> None:
        await self._loop.stop(grace)
