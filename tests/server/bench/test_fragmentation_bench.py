"""`octavo bench fragmentation` on the command line."""

import json
from pathlib import Path

import pytest

from server.cli import main
from tests.support.documented import undocumented


def bench(folder: Path, *flags: str) -> dict[str, object]:
    file = folder / "fragmentation.json"
    assert main(["bench", "fragmentation", f"--json={file}", *flags]) == 0
    report: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    return report


ONE = ("--requests=1", "--prompt-tokens=17:17", "--new-tokens=1:1")


def test_one_request_of_seventeen_tokens_leaves_fifteen_slots(tmp_path: Path) -> None:
    report = bench(tmp_path, *ONE)
    assert undocumented(report, "bench-engine.md") == set()
    assert report["unused_tail_slots"] == 15
    assert report["fragmentation_ratio"] == 15 / 32
    assert report["unused_tail_bytes"] == 15 * 46080
    assert report["page_capacity"] == 0  # no step has run by then


@pytest.mark.parametrize(
    ("flag", "changed"),
    [
        ("--page-size=4", "unused_tail_slots"),
        ("--bytes-per-token=10", "unused_tail_bytes"),
        ("--prompt-tokens=30:30", "unused_tail_slots"),
        ("--new-tokens=9:9", "steps"),
        ("--requests=3", "steps"),
    ],
)
def test_each_flag_changes_the_trace(tmp_path: Path, flag: str, changed: str) -> None:
    assert bench(tmp_path, *ONE, flag)[changed] != bench(tmp_path, *ONE)[changed]


def test_the_seed_and_the_number_of_sequences_change_the_trace(tmp_path: Path) -> None:
    plain = bench(tmp_path, "--requests=30")
    assert bench(tmp_path, "--requests=30", "--seed=1")["mean_ratio"] != plain["mean_ratio"]
    few = bench(tmp_path, "--requests=30", "--max-num-seqs=2")
    assert int(str(few["steps"])) > int(str(plain["steps"]))


def test_people_get_a_table_beside_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(tmp_path, *ONE)
    table = capsys.readouterr().out
    assert "15 of 32 in live pages" in table
    assert "46.88%" in table


@pytest.mark.parametrize("bad", ["0", "0:4", "9:3", "a:b", ":", "5:", ":5", "-1:3"])
def test_a_bad_span_names_its_flag(capsys: pytest.CaptureFixture[str], bad: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "fragmentation", f"--new-tokens={bad}"])
    assert stopped.value.code == 2
    assert "--new-tokens" in capsys.readouterr().err


def test_a_span_of_one_length_is_that_length(tmp_path: Path) -> None:
    for word in ("5", "5:5"):
        main(["bench", "fragmentation", f"--new-tokens={word}", f"--json={tmp_path / word}"])
    one, both = ((tmp_path / word).read_text(encoding="utf-8") for word in ("5", "5:5"))
    assert one == both
