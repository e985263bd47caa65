"""What becomes of each snapshot: a frame drawn in place, a printed one, or a line of JSON."""

import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from typing import TextIO

from server.api.schemas.snapshot import Snapshot
from server.top.frame import Look, draw_frame
from server.top.screen import open_screen

ALL_LINES = 1 << 16  # where nothing scrolls out of sight

Show = Callable[[Snapshot], None]


def show(
    snapshots: Generator[Snapshot, None, None],
    out: TextIO,
    environment: Mapping[str, str],
    *,
    once: bool,
    as_json: bool,
) -> int:
    """Until the snapshots end or somebody presses Ctrl-C. Returns the exit code. Raises what
    `snapshots` raises, and OSError."""
    with closing(snapshots):
        # The second snapshot is the first that knows rates.
        wanted: Iterable[Snapshot] = islice(snapshots, 1, 2) if once else snapshots
        in_place = not (once or as_json)
        try:
            with _shown(out, environment, in_place, as_json) as take:
                for snapshot in wanted:
                    take(snapshot)
        except KeyboardInterrupt:
            return 0
    if not once:
        print("octavo: the server has ended", file=sys.stderr)
    return 0


@contextmanager
def _shown(
    out: TextIO, environment: Mapping[str, str], in_place: bool, as_json: bool
) -> Iterator[Show]:
    if as_json:
        yield lambda snapshot: print(snapshot.model_dump_json(), file=out, flush=True)
    elif in_place and _is_screen(out, environment):
        with open_screen(out) as screen:
            yield lambda snapshot: screen.draw(draw_frame(snapshot, _look(out, environment)))
    else:
        yield lambda snapshot: _print(snapshot, out, environment)


def _print(snapshot: Snapshot, out: TextIO, environment: Mapping[str, str]) -> None:
    look = _look(out, environment, lines=ALL_LINES)
    print("\n".join(draw_frame(snapshot, look)), file=out, flush=True)


def _is_screen(out: TextIO, environment: Mapping[str, str]) -> bool:
    return out.isatty() and environment.get("TERM") != "dumb"


def _look(out: TextIO, environment: Mapping[str, str], lines: int | None = None) -> Look:
    columns, rows = os.get_terminal_size(out.fileno()) if out.isatty() else (0, 0)
    usual = shutil.get_terminal_size()  # also for a terminal that does not know its size: 0 by 0
    return Look(
        columns=columns or usual.columns,
        lines=lines or rows or usual.lines,
        colour=_is_screen(out, environment) and not environment.get("NO_COLOR"),
        blocks="utf" in (out.encoding or "").lower(),
    )
