"""One snapshot from what was read at one moment. Pure, so that it can be made on any thread."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.engine_stats import EngineStats, EngineStatus
from engine.engine_view import EngineView, SequenceView
from server.api.dashboard.pool_picture import draw_pool
from server.api.schemas.snapshot import FirstToken, PageCounts, Rates, SequenceRow, Snapshot

MAX_ROWS = 100


@dataclass(frozen=True, slots=True)
class Label:
    """What people know a request by, and since when it is here."""

    name: str
    age_seconds: float


@dataclass(frozen=True, slots=True)
class Moment:
    """`labels` are by the engine's request ids, `first_tokens` in seconds, the last minute's."""

    model: str
    status: EngineStatus
    stats: EngineStats
    view: EngineView
    rates: Rates
    first_tokens: tuple[float, ...]
    labels: Mapping[str, Label]


def make_snapshot(moment: Moment) -> Snapshot:
    stats, view = moment.stats, moment.view
    queried = stats.prefix_query_tokens
    names = [_name(sequence, moment.labels) for sequence in view.sequences]
    return Snapshot(
        model=moment.model,
        status=moment.status.value,
        requests_running=stats.requests_running,
        requests_waiting=stats.requests_waiting,
        rates=moment.rates,
        first_token=_first_token(moment.first_tokens),
        prefix_hit_rate=round(stats.prefix_hit_tokens / queried, 4) if queried else None,
        preemptions=stats.preemptions,
        pages=PageCounts(free=stats.pages_free, used=stats.pages_used, cached=stats.pages_cached),
        pool=draw_pool(view, names),
        sequences=_rows(moment, names),
    )


def _rows(moment: Moment, names: Sequence[str]) -> tuple[SequenceRow, ...]:
    """The oldest; a sequence whose client has left ends with the open step, and is not told."""
    known = [
        _row(sequence, name, moment.labels[sequence.request_id])
        for sequence, name in zip(moment.view.sequences, names, strict=True)
        if sequence.request_id in moment.labels
    ]
    return tuple(known[:MAX_ROWS])


def _row(sequence: SequenceView, name: str, label: Label) -> SequenceRow:
    prompt = sequence.num_prompt_tokens
    return SequenceRow(
        name=name,
        state="running" if sequence.is_running else "waiting",
        prompt_tokens=prompt,
        prompt_computed=min(prompt, sequence.num_computed_tokens),
        cached_tokens=sequence.num_cached_tokens,
        generated_tokens=sequence.num_generated_tokens,
        max_tokens=sequence.max_tokens,
        preemptions=sequence.num_preemptions,
        age_seconds=round(label.age_seconds, 1),
    )


def _name(sequence: SequenceView, labels: Mapping[str, Label]) -> str:
    label = labels.get(sequence.request_id)
    indexes = "+".join(map(str, sequence.indexes))
    return f"{label.name if label else sequence.request_id}/{indexes}"


def _first_token(seconds: Sequence[float]) -> FirstToken | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    return FirstToken(
        median=round(_percentile(ordered, 50), 4),
        p95=round(_percentile(ordered, 95), 4),
        requests=len(ordered),
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` of all do not exceed (nearest rank)."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]
