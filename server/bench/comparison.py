"""Outcomes of several rounds side by side: medians, ratios to the first server, spread. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from server.bench.compare_loads import ComparedLoad
from server.bench.figure import COPIED, RESIDENT, Figure
from server.bench.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one server under one load.

    `ratio` is to the first server, round by round. `value` is None where no round gave the figure,
    `ratio` where no round gave it for both, or the first server's was 0. `failed`: a request did.
    """

    load: ComparedLoad
    figure: Figure
    server: str
    value: Spread | None
    ratio: Spread | None
    failed: bool


def spread_of(values: Sequence[float]) -> Spread | None:
    return Spread(median(values), min(values), max(values)) if values else None


def compare(
    loads: Sequence[ComparedLoad], servers: Sequence[str], outcomes: Sequence[Outcome]
) -> tuple[Comparison, ...]:
    """In the order of loads, then figures, then servers."""
    return tuple(
        _comparison(load, figure, server, servers[0], outcomes)
        for load in loads
        for figure in _figures(load, outcomes)
        for server in servers
    )


def _figures(load: ComparedLoad, outcomes: Sequence[Outcome]) -> tuple[Figure, ...]:
    """Those that belong to the load, and what an Octavo among the servers said of itself."""
    said = {figure for o in outcomes if o.load == load.name for figure in o.figures}
    return (*load.shown, *(figure for figure in (COPIED, RESIDENT) if figure in said))


def _comparison(
    load: ComparedLoad, figure: Figure, server: str, first: str, outcomes: Sequence[Outcome]
) -> Comparison:
    values, firsts = (
        {o.round: o.figures[figure] for o in _of(outcomes, load, name) if figure in o.figures}
        for name in (server, first)
    )
    ratios = [value / firsts[turn] for turn, value in values.items() if firsts.get(turn)]
    return Comparison(
        load,
        figure,
        server,
        value=spread_of([*values.values()]),
        ratio=spread_of(ratios),
        failed=any(o.failures for o in _of(outcomes, load, server)),
    )


def _of(outcomes: Sequence[Outcome], load: ComparedLoad, server: str) -> list[Outcome]:
    return [o for o in outcomes if o.load == load.name and o.server == server]
