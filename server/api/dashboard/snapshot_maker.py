"""Snapshots of a live server: read at one moment on the event loop, made in a worker thread."""

from collections.abc import Callable

from engine.engine_stats import EngineStatus
from server.api.active_requests import ActiveRequests
from server.api.dashboard.rates import RateMeter, TokenCounts
from server.api.dashboard.snapshot import Label, Moment, make_snapshot
from server.api.engine_client import EngineClient
from server.api.metrics import Metrics
from server.api.workers import Workers


class SnapshotMaker:
    """Reading only copies; runs of pages and JSON would hold up the event loop for too long."""

    def __init__(  # noqa: PLR0913 - a snapshot is made from this much
        self,
        *,
        model: str,
        engine: EngineClient,
        active: ActiveRequests,
        metrics: Metrics,
        workers: Workers,
        clock: Callable[[], float],
    ) -> None:
        self._model = model
        self._engine = engine
        self._active = active
        self._metrics = metrics
        self._workers = workers
        self._clock = clock
        self._meter = RateMeter()

    async def make(self) -> bytes:
        """A Snapshot as ASCII JSON, its defaults left out. Raises Overloaded."""
        moment = self._read()
        return await self._workers.run(lambda: _encoded(moment))

    def _read(self) -> Moment:
        now = self._clock()
        stats = self._engine.stats()
        counts = TokenCounts(now, stats.generated_tokens, stats.prompt_tokens)
        return Moment(
            model=self._model,
            status=self._status,
            stats=stats,
            view=self._engine.view(),
            rates=self._meter.add(counts),
            first_tokens=self._metrics.recent_first_tokens.at(now),
            labels={
                engine_id: Label(record.request_id, record.age_seconds)
                for engine_id, record in self._active.records().items()
            },
        )

    @property
    def _status(self) -> EngineStatus:
        status = self._engine.status
        is_ending = self._active.refusing and status is EngineStatus.READY
        return EngineStatus.DRAINING if is_ending else status


def _encoded(moment: Moment) -> bytes:
    text = make_snapshot(moment).model_dump_json(exclude_defaults=True, ensure_ascii=True)
    return text.encode()
