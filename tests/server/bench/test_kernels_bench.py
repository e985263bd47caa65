"""`octavo bench kernels` on the command line. What it measures is no test's business."""

import json
from pathlib import Path

import pytest

import metal
from server.cli import main
from tests.support.documented import undocumented

FAST = ("--rounds=1", "--probe-memory=64KiB")


def bench(folder: Path, *flags: str) -> dict[str, object]:
    file = folder / "kernels.json"
    assert main(["bench", "kernels", *FAST, f"--json={file}", *flags]) == 0
    report: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    return report


def test_only_the_named_kernels_are_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "kernels.png"
    report = bench(tmp_path, "--only=silu_mul", f"--plot={plot}")
    assert undocumented(report, "bench-engine.md") == set()
    kernels = report["kernels"]
    assert isinstance(kernels, list)
    assert [kernel["name"] for kernel in kernels] == ["silu_mul, 1 x 1536", "silu_mul, 512 x 1536"]
    assert [kernel["bytes"] for kernel in kernels] == [3 * 1536 * 4, 512 * 3 * 1536 * 4]
    assert "silu_mul, 512 x 1536" in capsys.readouterr().out
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_machine_is_measured_with_the_threads_and_buffers_asked_for(tmp_path: Path) -> None:
    before = metal.num_threads()
    try:
        report = bench(
            tmp_path, "--only=silu_mul, 1 x", "--threads=1", "--rounds=2", "--probe-memory=1MiB"
        )
    finally:
        metal.set_num_threads(before)
    machine = report["machine"]
    assert isinstance(machine, dict)
    assert machine["threads"] == 1
    assert [read["buffer_bytes"] for read in machine["reads"]] == [65536, 262144, 1048576]


def test_an_unknown_kernel_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "kernels", *FAST, "--only=softmax"]) == 1
    assert "no kernel is called 'softmax'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "bad", ["--probe-memory=1KiB", "--probe-memory=100TiB", "--rounds=0", "--threads=0", "--only="]
)
def test_a_bad_value_names_its_flag(capsys: pytest.CaptureFixture[str], bad: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "kernels", bad])
    assert stopped.value.code == 2
    assert bad.partition("=")[0] in capsys.readouterr().err
