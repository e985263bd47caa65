"""Plots are real pictures, and matplotlib is needed only for them."""

import subprocess
import sys
from pathlib import Path

import pytest

from server.bench.compare_loads import LOADS
from server.bench.compare_plot import comparison_figure
from server.bench.comparison import compare
from server.bench.errors import BenchError
from server.bench.outcome import Outcome
from server.bench.plot import check_plotting, new_figure, save_figure
from server.standard_output import OutputError


def test_a_figure_needs_no_window_and_leaves_no_state(tmp_path: Path) -> None:
    path = tmp_path / "empty.png"
    save_figure(new_figure("nothing", 1, 2), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules


def test_a_name_is_no_formula(tmp_path: Path) -> None:
    name, path = r"a $\name$ of its own", tmp_path / "x.png"
    save_figure(new_figure(name, 1, 1), path)
    comparisons = compare(LOADS[:1], [name], [Outcome(0, LOADS[0].name, name, {})])
    save_figure(comparison_figure(comparisons), path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"gone/x\.png: No such file"):
        save_figure(new_figure("nothing", 1, 1), tmp_path / "gone" / "x.png")


def test_without_matplotlib_only_a_plot_is_refused() -> None:
    check_plotting(None, lambda _: None)
    check_plotting(Path("x.png"))
    with pytest.raises(BenchError, match=r"needs matplotlib: \S+ -m pip install matplotlib"):
        check_plotting(Path("x.png"), lambda _: None)


def test_nothing_imports_matplotlib_before_a_plot_is_asked_for() -> None:
    script = (
        "import sys, server.bench.serve, server.bench.compare; print('matplotlib' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False\n"
