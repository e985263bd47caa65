"""Frames of every size: nothing too wide, nothing too high, nothing that a terminal would obey."""

import re

import pytest

from server.api.schemas.snapshot import (
    FirstToken,
    PageCounts,
    PageRun,
    PoolPicture,
    Rates,
    SequenceRow,
    Snapshot,
)
from server.top.frame import Look, draw_frame
from server.top.page_strip import Cell, strip_of
from server.top.text_width import columns_of, fit, fit_middle, harmless

SIZES = [(80, 24), (40, 24), (20, 10), (10, 5), (1, 1), (200, 60), (80, 3)]
PAINT = re.compile(r"\x1b\[\d+m")


def pool(*runs: PageRun, exact: bool = True) -> PoolPicture:
    pages = sum(run.free + run.used + run.shared + run.cached for run in runs)
    return PoolPicture(page_size=16, num_pages=pages, exact=exact, owners=(), runs=runs)


POOL = pool(PageRun(used=6), PageRun(shared=2), PageRun(cached=4), PageRun(free=88))


def row(name: str = "req-1/0", **fields: object) -> SequenceRow:
    values = {
        "state": "running",
        "prompt_tokens": 100,
        "prompt_computed": 50,
        "cached_tokens": 0,
        "generated_tokens": 1200,
        "max_tokens": 1500,
        "preemptions": 0,
        "age_seconds": 2.5,
    }
    return SequenceRow(name=name, **(values | fields))


def snapshot(*rows: SequenceRow, **fields: object) -> Snapshot:
    values = {
        "model": "smollm2",
        "status": "ready",
        "requests_running": len(rows),
        "requests_waiting": 0,
        "rates": Rates(generated_tokens=41.5, prompt_tokens=0.0),
        "first_token": FirstToken(median=0.0712, p95=1.3, requests=12),
        "prefix_hit_rate": 0.25,
        "preemptions": 3,
        "pages": PageCounts(free=88, used=8, cached=4),
        "pool": POOL,
        "sequences": rows,
    }
    return Snapshot(**(values | fields))


def plain(lines: list[str]) -> str:
    return "\n".join(PAINT.sub("", line) for line in lines)


def test_a_frame_tells_everything_on_an_ordinary_terminal() -> None:
    text = plain(draw_frame(snapshot(row()), Look(80, 24)))
    assert text.splitlines() == [
        "octavo smollm2" + " " * 60 + " ready",
        "generated 41.5 tokens/s   prompts 0.0 tokens/s   first token 71 ms, p95 1.3 s",
        "prefix hits 25%   preemptions 3",
        "100 pages   █ 6 used   ▓ 2 shared   ░ 4 cached   · 88 free",
        "██████▓▓░░░░" + "·" * 68,
        "·" * 20,
        "1 running, 0 waiting",
        "req-1/0                      50/100 ██████░░░░░░ 1,200/1,500 █████████░░░  2.5 s",
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("colour", [False, True])
def test_no_frame_is_larger_than_its_terminal(size: tuple[int, int], colour: bool) -> None:
    columns, lines = size
    rows = [row(f"req-{'x' * 40}/{i}") for i in range(50)]
    frame = draw_frame(snapshot(*rows, model="m" * 300), Look(columns, lines, colour=colour))
    assert len(frame) <= lines
    assert max(columns_of(PAINT.sub("", line)) for line in frame) <= columns


def test_requests_that_find_no_room_are_counted() -> None:
    rows = [row(f"req-{i}/0") for i in range(50)]
    frame = draw_frame(snapshot(*rows, requests_waiting=7), Look(80, 24))
    shown = sum("req-" in line for line in frame)
    assert len(frame) == 24
    assert frame[-1] == f"{57 - shown} more"


def test_every_request_is_shown_where_there_is_room() -> None:
    frame = draw_frame(snapshot(*[row(f"req-{i}/0") for i in range(5)]), Look(80, 24))
    assert sum("req-" in line for line in frame) == 5
    assert "more" not in plain(frame)


@pytest.mark.parametrize("columns", [80, 64, 40])
def test_the_answers_of_one_request_are_told_apart_at_any_width(columns: int) -> None:
    request = f"req-{'0123456789ab' * 3}"
    rows = [row(f"{request}/{index}") for index in range(2)]
    *_, first, second = draw_frame(snapshot(*rows), Look(columns, 24))
    assert first.startswith("req-")
    assert "…" in first
    assert first.partition(" ")[0][-2:] == "/0"
    assert second.partition(" ")[0][-2:] == "/1"


def test_a_narrow_terminal_gets_figures_without_bars() -> None:
    frame = plain(draw_frame(snapshot(row()), Look(40, 24)))
    line = frame.splitlines()[-1]
    assert line.split() == ["req-1/0", "50/100", "1,200/1,500", "2.5", "s"]


def test_what_is_not_known_yet_is_a_dash() -> None:
    fresh = snapshot(
        rates=Rates(generated_tokens=None, prompt_tokens=None),
        first_token=None,
        prefix_hit_rate=None,
    )
    text = plain(draw_frame(fresh, Look(80, 24)))
    assert "generated -   prompts -   first token -   prefix hits -" in text


def test_colour_is_only_where_it_is_wanted() -> None:
    waiting = snapshot(row(state="waiting"))
    assert "\x1b" not in "".join(draw_frame(waiting, Look(80, 24)))
    painted = draw_frame(waiting, Look(80, 24, colour=True))
    assert plain(painted) == plain(draw_frame(waiting, Look(80, 24)))
    assert all(line.count("\x1b[0m") == len(PAINT.findall(line)) / 2 for line in painted)


def test_a_terminal_without_blocks_gets_ascii() -> None:
    frame = draw_frame(snapshot(row()), Look(80, 24, blocks=False))
    assert plain(frame).isascii()
    assert "######%%----" in plain(frame)


def test_names_cannot_steer_the_terminal() -> None:
    frame = draw_frame(
        snapshot(row("\x1b[2Jr\r\n\t\u202e"), model="\x1b]0;owned\x07m"), Look(80, 24)
    )
    assert all(line.isprintable() for line in frame)


def test_a_page_in_use_is_seen_in_a_pool_of_any_size() -> None:
    large = pool(PageRun(free=50_000), PageRun(shared=1), PageRun(free=49_999))
    cells = strip_of(large, 80)
    assert len(cells) <= 80
    assert cells.count(Cell.SHARED) == 1
    assert cells.count(Cell.FREE) == len(cells) - 1


def test_a_cell_shows_what_most_of_its_pages_are() -> None:
    mixed = pool(PageRun(used=3, cached=2, free=5), PageRun(used=1, cached=3, free=6), exact=False)
    assert strip_of(mixed, 2) == [Cell.USED, Cell.CACHED]


@pytest.mark.parametrize(
    ("text", "columns", "fitted"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 4, "abc…"),
        ("日本語", 4, "日… "),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
    ],
)
def test_text_is_made_to_fit(text: str, columns: int, fitted: str) -> None:
    assert fit(text, columns) == fitted


@pytest.mark.parametrize(
    ("text", "columns", "fitted"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 6, "abcdef"),
        ("abcdefgh", 6, "abc…gh"),
        ("abcdefgh", 5, "ab…gh"),
        ("abcdefgh", 2, "a…"),
        ("abcdefgh", 1, "…"),
        ("abcdefgh", 0, ""),
        ("日本語日本語", 6, "日…語 "),
        ("abcde\u0301f\u0301", 4, "ab…f\u0301"),
    ],
)
def test_a_name_is_cut_in_its_middle(text: str, columns: int, fitted: str) -> None:
    assert fit_middle(text, columns) == fitted


def test_harmless_text_stays_as_it_is() -> None:
    assert harmless("tiny/模型 (v2)") == "tiny/模型 (v2)"
    assert harmless("a\x00b\x9bc\u2028d") == "a?b?c?d"
