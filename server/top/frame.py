"""One frame of the terminal view: from a snapshot and a size to lines. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType

from server.api.schemas.snapshot import SequenceRow, Snapshot
from server.top.page_strip import Cell, count_states, pages_per_cell, strip_of
from server.top.text_width import columns_of, fit, fit_middle, harmless

NARROW = 64  # columns below which progress is told in figures alone
MAX_STRIP_LINES = 4
_FIGURES = 11  # columns of "1,234/1,500"
_AGE = 6

_BLOCKS: Mapping[Cell, str] = MappingProxyType(
    {Cell.USED: "█", Cell.SHARED: "▓", Cell.CACHED: "░", Cell.FREE: "·"}
)
_LETTERS: Mapping[Cell, str] = MappingProxyType(
    {Cell.USED: "#", Cell.SHARED: "%", Cell.CACHED: "-", Cell.FREE: "."}
)
_COLOURS: Mapping[Cell, str] = MappingProxyType(
    {Cell.USED: "34", Cell.SHARED: "33", Cell.CACHED: "36", Cell.FREE: "2"}
)


@dataclass(frozen=True, slots=True)
class Look:
    """What a terminal can show, and how much of it."""

    columns: int
    lines: int
    colour: bool = False
    blocks: bool = True  # else ASCII alone


def draw_frame(snapshot: Snapshot, look: Look) -> list[str]:
    """At most `look.lines` lines, none wider than `look.columns`."""
    head = [*_head(snapshot, look), *_strip(snapshot, look)]
    return (head + _requests(snapshot, look, look.lines - len(head)))[: look.lines]


def _head(snapshot: Snapshot, look: Look) -> list[str]:
    status = snapshot.status
    title = fit(f"octavo {harmless(snapshot.model)}", max(0, look.columns - len(status) - 1))
    return [
        _painted(fit(f"{title} {status}", look.columns), "1", look),
        *_wrapped(_facts(snapshot), look.columns),
    ]


def _facts(snapshot: Snapshot) -> tuple[str, ...]:
    times, hits = snapshot.first_token, snapshot.prefix_hit_rate
    first = "-" if times is None else f"{_time(times.median)}, p95 {_time(times.p95)}"
    return (
        f"generated {_rate(snapshot.rates.generated_tokens)}",
        f"prompts {_rate(snapshot.rates.prompt_tokens)}",
        f"first token {first}",
        f"prefix hits {'-' if hits is None else f'{hits:.0%}'}",
        f"preemptions {snapshot.preemptions:,}",
    )


def _wrapped(facts: Sequence[str], columns: int) -> list[str]:
    lines = [""]
    for fact in facts:
        joined = f"{lines[-1]}   {fact}" if lines[-1] else fact
        if columns_of(joined) <= columns or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(fact)
    return [fit(line, columns).rstrip() for line in lines]


def _strip(snapshot: Snapshot, look: Look) -> list[str]:
    pool, signs = snapshot.pool, _BLOCKS if look.blocks else _LETTERS
    capacity = look.columns * min(MAX_STRIP_LINES, max(1, look.lines // 6))
    per_cell = pages_per_cell(pool, capacity)
    counts = count_states(pool)
    legend = [f"{signs[state]} {counts[state]:,} {state}" for state in signs]
    scale = "" if per_cell == 1 else f", {per_cell:,} to a sign"
    title = f"{pool.num_pages:,} pages{scale}"
    cells = strip_of(pool, capacity)
    return [
        *_wrapped((title, *legend), look.columns),
        *(
            _strip_line(cells[start : start + look.columns], signs, look)
            for start in range(0, len(cells), look.columns)
        ),
    ]


def _strip_line(cells: Sequence[Cell], signs: Mapping[Cell, str], look: Look) -> str:
    return "".join(
        _painted(signs[cell] * len(list(alike)), _COLOURS[cell], look)
        for cell, alike in groupby(cells)
    )


def _requests(snapshot: Snapshot, look: Look, room: int) -> list[str]:
    running, waiting = snapshot.requests_running, snapshot.requests_waiting
    title = fit(f"{running:,} running, {waiting:,} waiting", look.columns).rstrip()
    shown = snapshot.sequences[: max(0, room - 1)]
    if running + waiting > len(shown) and shown:
        shown = snapshot.sequences[: max(0, room - 2)]
    hidden = running + waiting - len(shown)
    more = [fit(f"{hidden:,} more", look.columns).rstrip()] if hidden > 0 else []
    return [_painted(title, "1", look), *(_row(row, look) for row in shown), *more]


def _row(row: SequenceRow, look: Look) -> str:
    is_narrow = look.columns < NARROW
    bars = 0 if is_narrow else min(16, (look.columns - 56) // 2)
    parts = [
        _progress(row.prompt_computed, row.prompt_tokens, bars, look),
        _progress(row.generated_tokens, row.max_tokens, bars, look),
        _time(row.age_seconds).rjust(_AGE),
    ]
    tail = " ".join(parts)
    name = fit_middle(harmless(row.name), max(0, look.columns - columns_of(tail) - 1))
    line = fit(f"{name} {tail}", look.columns)
    return _painted(line, "2", look) if row.state == "waiting" else line


def _progress(done: int, whole: int, bar: int, look: Look) -> str:
    figures = f"{done:,}/{whole:,}".rjust(_FIGURES)
    if not bar:
        return figures
    filled = bar * done // max(1, whole)
    full, empty = ("█", "░") if look.blocks else ("#", ".")
    return f"{figures} {full * filled}{empty * (bar - filled)}"


def _rate(per_second: float | None) -> str:
    return "-" if per_second is None else f"{per_second:,.1f} tokens/s"


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _painted(text: str, code: str, look: Look) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if look.colour else text
