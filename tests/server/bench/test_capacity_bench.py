"""`octavo bench capacity` on the command line."""

import json
from pathlib import Path

import pytest

from server.cli import main
from tests.support.documented import undocumented

SMALL = (
    "--budgets=64,96",
    "--requests=12",
    "--prompt-tokens=8:8",
    "--new-tokens=4:4",
    "--max-tokens=12",
    "--max-model-len=32",
    "--page-size=4",
    "--bytes-per-token=1",
)


def bench(folder: Path, *flags: str) -> list[dict[str, object]]:
    file = folder / "capacity.json"
    assert main(["bench", "capacity", *SMALL, f"--json={file}", *flags]) == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert undocumented(report, "bench-engine.md") == set()
    found: list[dict[str, object]] = report["capacities"]
    return found


def test_people_get_a_table_and_programs_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bench(tmp_path, "--budgets=4MiB,8MiB", "--bytes-per-token=65536")
    assert [
        capacity["most_running"] for capacity in found if capacity["admission"] == "longest"
    ] == [
        2,
        4,
    ]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * 3
    assert lines[3].split() == [
        "4",
        "MiB",
        "dense,",
        "longest",
        "context",
        "12",
        "0",
        "2",
        "2.0",
        "24",
        "0",
    ]


@pytest.mark.parametrize(
    ("flag", "changed"),
    [
        ("--budgets=128", "most_running"),
        ("--requests=20", "num_steps"),
        ("--prompt-tokens=12:12", "most_running"),
        ("--new-tokens=9:9", "num_steps"),
        ("--max-tokens=20", "most_running"),
        ("--max-model-len=60", "most_running"),
        ("--page-size=32", "most_running"),
        ("--bytes-per-token=2", "most_running"),
        ("--max-num-batched-tokens=9", "num_steps"),
    ],
)
def test_each_flag_changes_the_figures(tmp_path: Path, flag: str, changed: str) -> None:
    plain, other = bench(tmp_path), bench(tmp_path, flag)
    assert [each[changed] for each in plain] != [each[changed] for each in other]


def test_the_seed_changes_the_trace(tmp_path: Path) -> None:
    mixed = ("--prompt-tokens=1:20", "--new-tokens=1:12")
    assert bench(tmp_path, *mixed) != bench(tmp_path, *mixed, "--seed=1")


def test_a_plot_is_a_png(tmp_path: Path) -> None:
    plot = tmp_path / "capacity.png"
    bench(tmp_path, f"--plot={plot}")
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_budget_that_holds_no_page_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "capacity", "--budgets=512MiB,1KiB"]) == 2
    assert capsys.readouterr().err == (
        "octavo: --budgets: 1024 bytes do not hold one page of 737280 bytes\n"
    )


def test_a_budget_of_less_than_a_mebibyte_is_not_told_as_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(tmp_path, "--budgets=512KiB,1536MiB", "--bytes-per-token=16384")
    table = capsys.readouterr().out
    assert "0.5 MiB" in table
    assert "1,536 MiB" in table


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("--budgets=1KiB,many", "--budgets"),
        ("--max-tokens=3", "--max-tokens is less than the longest answer"),
        ("--max-model-len=19", "more than --max-model-len"),
    ],
)
def test_bad_values_are_told_in_one_line(
    capsys: pytest.CaptureFixture[str], bad: str, told: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "capacity", *SMALL, bad])
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err
