"""Medians, ratios and spread of hand-made outcomes."""

from dataclasses import replace

import pytest

from server.bench.chunk import Usage
from server.bench.compare_loads import LOADS, ComparedLoad
from server.bench.compare_plot import bar_label
from server.bench.compare_text import as_table
from server.bench.comparison import Comparison, Spread, compare
from server.bench.figure import (
    COPIED,
    FIRST_TOKEN,
    OUTPUT_SPEED,
    PROMPT_SPEED,
    RESIDENT,
    TOKEN_TIME,
    Figure,
)
from server.bench.load import Clients
from server.bench.load_run import LoadRun
from server.bench.measured import Measured
from server.bench.outcome import Outcome, figures_of_counters, figures_of_run
from server.bench.server_counters import COPIED_BYTES, ServerCounters

EIGHT = next(load for load in LOADS if load.name == "clients-8")


def outcomes(server: str, *values: float, figure: Figure = OUTPUT_SPEED) -> list[Outcome]:
    return [Outcome(turn, EIGHT.name, server, {figure: v}) for turn, v in enumerate(values)]


def compared(
    *all_outcomes: Outcome, loads: tuple[ComparedLoad, ...] = (EIGHT,)
) -> list[Comparison]:
    return list(compare(loads, ["old", "new"], all_outcomes))


def test_ratios_are_taken_round_by_round() -> None:
    old, new = compared(*outcomes("old", 10, 20, 40), *outcomes("new", 15, 40, 40))
    assert old.value == Spread(20, 10, 40)
    assert old.ratio == Spread(1, 1, 1)
    assert new.value == Spread(40, 15, 40)
    assert new.ratio == Spread(1.5, 1, 2)


def test_a_round_that_failed_on_either_side_gives_no_ratio() -> None:
    failed = Outcome(1, EIGHT.name, "old", {}, {"cut": 2}, "cut: gone")
    old_first, _, old_last = outcomes("old", 10, 0, 40)
    old, new = compared(old_first, failed, old_last, *outcomes("new", 15, 99, 40))
    assert old.value == Spread(25, 10, 40)
    assert new.value == Spread(40, 15, 99)
    assert new.ratio == Spread(1.25, 1, 1.5)


def test_a_server_without_figures_has_no_value() -> None:
    _, new = compared(*outcomes("old", 10), Outcome(0, EIGHT.name, "new", {}, {"cut": 1}, "cut: x"))
    assert new.value is new.ratio is None


def test_a_plot_calls_failed_only_what_failed() -> None:
    cut = Outcome(0, EIGHT.name, "new", {}, {"cut": 1}, "cut: x")
    assert [bar_label(c) for c in compared(*outcomes("old", 10), cut)] == [
        "old\n10 = 1.00x",
        "new\nfailed",
    ]
    both = (*outcomes("old", 1), *outcomes("new", 2), *outcomes("new", 3, figure=RESIDENT))
    untold = [bar_label(c) for c in compared(*both) if c.value is None]
    assert untold == ["old\n-"]


def test_no_ratio_is_taken_to_nothing() -> None:
    both = [*outcomes("old", 0, figure=COPIED), *outcomes("new", 5, figure=COPIED)]
    *_, old, new = compared(*both)
    assert old.figure is new.figure is COPIED
    assert new.value == Spread(5, 5, 5)
    assert old.ratio is new.ratio is None


def test_what_an_octavo_says_of_itself_is_shown_where_one_is_there() -> None:
    both = (*outcomes("old", 1), *outcomes("new", 2))
    assert {c.figure for c in compared(*both)} == {OUTPUT_SPEED}
    said = compared(*both, *outcomes("new", 3, figure=RESIDENT))
    assert [(c.figure, c.server) for c in said][2:] == [(RESIDENT, "old"), (RESIDENT, "new")]


def test_the_table_has_a_line_for_each_server_and_each_failure() -> None:
    failed = Outcome(1, EIGHT.name, "new", {}, {"http 503": 2}, "http 503: full")
    all_outcomes = [*outcomes("old", 10, 20), *outcomes("new", 15), failed]
    lines = as_table(compared(*all_outcomes), all_outcomes).splitlines()
    assert lines[0].split()[:5] == ["load", "figure", "server", "median", "low..high"]
    assert lines[1].split()[-5:] == ["old", "15.00", "10.00..20.00", "1.000", "1.000..1.000"]
    assert lines[2].split() == ["new", "15.00", "15.00..15.00", "1.500", "1.500..1.500"]
    assert lines[-1] == "round 2, clients-8, new: 2 x http 503; the first: http 503: full"


def test_drafts_are_told_for_each_load_and_server_over_all_rounds() -> None:
    drafted = {"octavo_drafted_tokens_total": 40.0, "octavo_accepted_tokens_total": 39.0}
    new = [replace(o, counters=drafted) for o in outcomes("new", 15, 16)]
    all_outcomes = [*outcomes("old", 10, 20), *new]
    table = as_table(compared(*all_outcomes), all_outcomes)
    assert "clients-8, new: 80 tokens drafted, 98% of them accepted" in table
    assert "random words fall into loops" in table
    assert "old: " not in table


def test_a_run_gives_speeds_and_median_times() -> None:
    run = LoadRun(
        Clients(1),
        (
            Measured(0, 4, (2, 3, 4), Usage(100, 3, 20)),
            Measured(4, 10, (5, 10), Usage(100, 2, 0)),
            Measured(10, 12, (12,), Usage(100, 1, 0)),
        ),
    )
    assert figures_of_run(run) == {
        OUTPUT_SPEED: 0.5,
        FIRST_TOKEN: 2000,
        TOKEN_TIME: 3000,
        PROMPT_SPEED: 50,  # of 40 (cached tokens are not computed), 100 and 50
    }


def test_one_token_each_without_counts_gives_neither_token_time_nor_prompt_speed() -> None:
    run = LoadRun(Clients(1), (Measured(0, 2, (1,)),))
    assert figures_of_run(run) == {OUTPUT_SPEED: 0.5, FIRST_TOKEN: 1000}


def test_counters_become_megabytes() -> None:
    added = ServerCounters({f'{COPIED_BYTES}{{part="growth"}}': 2.5e6}, 1e9)
    assert figures_of_counters(added) == {COPIED: pytest.approx(2.5), RESIDENT: 1000}
    assert figures_of_counters(ServerCounters({})) == {}


def test_the_loads_have_names_of_their_own_and_figures_to_show() -> None:
    assert len({load.name for load in LOADS}) == len(LOADS)
    assert all(load.shown for load in LOADS)
