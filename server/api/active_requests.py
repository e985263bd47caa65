"""The generations under way in one app: what a shutdown must wait for, and may have to end."""

import asyncio
from collections.abc import Mapping, Sequence

from engine.engine_stats import EngineStatus
from engine.errors import EngineDead, Overloaded
from engine.request import Request
from server.api.engine_client import EngineClient
from server.api.generation import Generation
from server.api.request_record import RequestRecord
from server.errors import RequestTimedOut


class ActiveRequests:
    """Admits generations until told to refuse; draining is `refuse_new`, `wait_idle`, `end_all`."""

    def __init__(self, engine: EngineClient, timeout: float | None) -> None:
        self._engine = engine
        self._timeout = timeout  # seconds, of each generation
        self._active: dict[Generation, RequestRecord] = {}
        self._refusing = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def refusing(self) -> bool:
        return self._refusing

    def check_admission(self) -> None:
        """Raises Overloaded or EngineDead where no new request is served now."""
        if self._refusing or self._engine.status is EngineStatus.DRAINING:
            raise Overloaded("The server is shutting down.", retry_after=5)
        if self._engine.status is EngineStatus.STARTING:
            raise Overloaded("The model is still loading.", retry_after=5)
        if self._engine.status is EngineStatus.DEAD:
            raise EngineDead("The engine has stopped and serves no more requests.")

    def records(self) -> Mapping[str, RequestRecord]:
        """The HTTP request behind each engine request under way, by the engine's request id."""
        return {
            request_id: record
            for generation, record in self._active.items()
            for request_id in generation.request_ids
        }

    def open(self, requests: Sequence[Request], record: RequestRecord) -> Generation:
        """A started generation, ended with RequestTimedOut if it takes too long. Raises what
        `check_admission` and the engine raise; then none of the requests runs."""
        self.check_admission()
        generation = Generation(self._engine, requests, self._forget)
        generation.start()
        if self._timeout is not None:
            late = RequestTimedOut(f"The request took longer than {self._timeout:g} seconds.")
            generation.fail_after(self._timeout, late)
        self._active[generation] = record
        self._idle.clear()
        return generation

    def refuse_new(self) -> None:
        """Stops admission; what runs goes on."""
        self._refusing = True

    async def wait_idle(self) -> None:
        """Returns once no generation is under way."""
        await self._idle.wait()

    def end_all(self) -> None:
        """Ends every generation with an error, which its client is told."""
        for generation in self._active:
            generation.fail(Overloaded("The server is shutting down.", retry_after=5))

    def _forget(self, generation: Generation) -> None:
        self._active.pop(generation, None)
        if not self._active:
            self._idle.set()
