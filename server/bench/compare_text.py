"""How `octavo bench compare` shows what it measured: a table, and an object for JSON. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from server.bench.compare_run import Contestant
from server.bench.comparison import Comparison, Spread
from server.bench.draft_note import draft_notes
from server.bench.outcome import Outcome
from server.bench.table import table


def as_table(comparisons: Sequence[Comparison], outcomes: Sequence[Outcome]) -> str:
    first = comparisons[0].server
    header = ("load", "figure", "server", "median", "low..high", f"over {first}", "low..high")
    blocks = groupby(comparisons, key=lambda c: (c.load.name, c.figure))
    rows = [row for _, block in blocks for row in _block(list(block))]
    failures = [
        f"round {o.round + 1}, {o.load}, {o.server}: {count} x {kind}; the first: {o.first_failure}"
        for o in outcomes
        for kind, count in o.failures.items()
    ]
    drafts = draft_notes(_added(outcomes))
    return "\n".join(
        [
            table(header, rows),
            *(["", *drafts] if drafts else []),
            *(["", "Failed:", *failures] if failures else []),
        ]
    )


def _added(outcomes: Sequence[Outcome]) -> list[tuple[str, Mapping[str, float]]]:
    """For each load and server what its counters grew by in all rounds."""
    sums: dict[str, Counter[str]] = {}
    for o in outcomes:
        sums.setdefault(f"{o.load}, {o.server}", Counter()).update(o.counters)
    return [*sums.items()]


def as_object(
    servers: Sequence[Contestant],
    seed: int,
    comparisons: Sequence[Comparison],
    outcomes: Sequence[Outcome],
) -> Mapping[str, object]:
    """As docs/bench.md says; `ratio` is to the first server."""
    return {
        "servers": [
            {"name": server.name, "url": server.target.url, "model": server.target.model}
            for server in servers
        ],
        "seed": seed,
        "loads": {c.load.name: c.load.says for c in comparisons},
        "comparisons": [_comparison(comparison) for comparison in comparisons],
        "outcomes": [_outcome(outcome) for outcome in outcomes],
    }


def _block(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """One figure of one load, a line for each server."""
    rows: list[tuple[str, ...]] = []
    for index, c in enumerate(comparisons):
        head = ("", "") if index else (c.load.name, c.figure.label)
        rows.append((*head, c.server, *_cells(c.value, 2), *_cells(c.ratio, 3)))
    return rows


def _cells(spread: Spread | None, digits: int) -> tuple[str, str]:
    if spread is None:
        return "-", "-"
    low, high = (f"{value:.{digits}f}" for value in (spread.low, spread.high))
    return f"{spread.median:.{digits}f}", f"{low}..{high}"


def _comparison(comparison: Comparison) -> Mapping[str, object]:
    return {
        "load": comparison.load.name,
        "figure": comparison.figure.key,
        "more_is_better": comparison.figure.more_is_better,
        "server": comparison.server,
        "value": asdict(comparison.value) if comparison.value else None,
        "ratio": asdict(comparison.ratio) if comparison.ratio else None,
    }


def _outcome(outcome: Outcome) -> Mapping[str, object]:
    return {
        "round": outcome.round,
        "load": outcome.load,
        "server": outcome.server,
        "figures": {figure.key: value for figure, value in outcome.figures.items()},
        "failures": dict(outcome.failures),
        "first_failure": outcome.first_failure,
        "counters": dict(outcome.counters),
    }
