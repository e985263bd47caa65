"""`octavo bench scaling`: a tiny model runs every sweep; what its times are is no test's business."""

import json
from pathlib import Path

import mlx.core as mx
import pytest

import metal
from server.bench.arrival import Arrival
from server.bench.footprint import Footprint, checkpoint_bytes
from server.bench.line_fit import Line
from server.bench.scaling import Point, Sweep, doubled
from server.bench.scaling_text import arrivals_text, footprint_text, sweep_text
from server.cli import main
from tests.support.checkpoints import tiny_llama
from tests.support.documented import undocumented

SMALL = (
    "--max-sequences=4",
    "--longest=64",
    "--steps=2",
    "--long-prompt=40",
    "--budgets=8,16",
    "--context=20",
    "--device=cpu",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


def bench(model: Path, file: Path, *flags: str) -> dict[str, object]:
    assert main(["bench", "scaling", f"--model={model}", *SMALL, f"--json={file}", *flags]) == 0
    report: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    return report


def sizes_of(report: dict[str, object], name: str) -> list[int]:
    sweeps = report["sweeps"]
    assert isinstance(sweeps, list)
    (found,) = (sweep for sweep in sweeps if sweep["name"] == name)
    return [point["x"] for point in found["points"]]


def test_every_sweep_runs_through_its_sizes(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "scaling.png"
    report = bench(model, tmp_path / "scaling.json", f"--plot={plot}")
    assert undocumented(report, "bench-engine.md") == set()
    assert sizes_of(report, "batch") == [1, 2, 4]
    assert sizes_of(report, "context") == [32, 64]
    assert sizes_of(report, "pool") == [64, 128]
    assert sizes_of(report, "prompt") == [32, 64]
    assert sizes_of(report, "chunk") == [2, 4, 8, 16]
    arrivals = report["arrivals"]
    assert isinstance(arrivals, list)
    assert [arrival["tokens_per_step"] for arrival in arrivals] == [8, 16]
    assert {arrival["prompt_tokens"] for arrival in arrivals} == {40}
    memory = report["memory"]
    assert isinstance(memory, dict)
    assert memory["weights"] == checkpoint_bytes(model)
    assert memory["kv"] == 16 * 2 * 16 * 2 * 2 * 2 * 64 * 4  # 2 pages of 16 slots each, K and V
    assert plot.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert printed.count("law:") == 6
    assert "added / arithmetic" in printed


@pytest.mark.parametrize(
    ("flags", "name", "sizes"),
    [
        (("--sweeps=batch", "--max-sequences=2"), "batch", [1, 2]),
        (("--sweeps=prompt", "--longest=130"), "prompt", [65, 130]),
    ],
)
def test_flags_choose_the_sweeps_and_how_far_they_go(
    model: Path, tmp_path: Path, flags: tuple[str, ...], name: str, sizes: list[int]
) -> None:
    report = bench(model, tmp_path / "scaling.json", *flags)
    assert sizes_of(report, name) == sizes
    assert report["memory"] is None
    assert report["arrivals"] == []


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("--longest=300", "needs 558 tokens; the model allows 512"),
        ("--long-prompt=600", "needs 601 tokens"),
        ("--sweeps=batch,speed", "--sweeps"),
        ("--max-sequences=1", "--max-sequences"),
    ],
)
def test_what_cannot_be_measured_is_told_first(
    model: Path, capsys: pytest.CaptureFixture[str], bad: str, told: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "scaling", f"--model={model}", *SMALL, bad])
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


def test_steps_and_threads_are_those_of_the_flags(model: Path, tmp_path: Path) -> None:
    before = metal.num_threads()
    try:
        report = bench(model, tmp_path / "one.json", "--sweeps=batch", "--steps=3", "--threads=1")
        assert metal.num_threads() == 1
    finally:
        metal.set_num_threads(before)
    assert report["sizes"] == {"most_sequences": 4, "longest": 64, "num_steps": 3}


def test_a_device_that_is_missing_is_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = 0 if mx.metal.is_available() else 2
    try:
        flags = (*SMALL, "--sweeps=batch", "--device=gpu")
        assert main(["bench", "scaling", f"--model={model}", *flags]) == expected
    finally:
        mx.set_default_device(mx.cpu)
    assert ("no GPU" in capsys.readouterr().err) == (expected == 2)


def test_sizes_double_up_to_the_last() -> None:
    assert doubled(1, 64) == [1, 2, 4, 8, 16, 32, 64]
    assert doubled(3, 13) == [3, 6, 12]
    assert doubled(5, 6) == [5, 10]


def test_a_sweep_says_its_law_its_line_and_each_point() -> None:
    points = (Point(1, 0.002, 1), Point(4, 0.004, 4))
    text = sweep_text(
        Sweep("batch", "a step", "sequences", "a + b x", points, Line(0.001, 0.0005, 0.25))
    )
    assert "found: 1.000 ms + 0.50000 ms * sequences; largest residual 25.0%" in text
    assert "slowest / fastest 2.00" in text
    assert text.splitlines()[-1].split() == ["4", "4.00", "3.00", "1,000.0"]


def test_a_line_that_falls_has_one_sign() -> None:
    points = (Point(1, 0.004, 1), Point(4, 0.002, 4))
    text = sweep_text(
        Sweep("pool", "a step", "pages", "flat", points, Line(0.001, -0.00000871, 0.25))
    )
    assert "found: 1.000 ms - 0.00871 ms * pages;" in text


def test_an_arrival_and_a_footprint_are_told_in_their_units() -> None:
    lines = arrivals_text([Arrival(64, 0.01, 0.02, 0.03, 0.015, 4000, 2.0)]).splitlines()
    assert "4,000 tokens" in lines[0]
    assert lines[-1].split() == ["64", "10.0", "20.0", "30.0", "15.0", "1.20", "2.00", "2,000"]
    mib = 1 << 20
    footprint = Footprint(50 * mib, 150 * mib, 350 * mib, 100 * mib, 150 * mib, 16000)
    assert footprint.ratio == 300 / 250
    assert footprint_text(footprint).endswith("added / arithmetic: 1.20")
