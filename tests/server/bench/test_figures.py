"""What the plots of benches show, read from the figures before they become pictures."""

from collections.abc import Mapping

import pytest
from matplotlib.axes import Axes

from engine.kernel_benchmark import KernelReport
from metal.machine_rates import MachineRates, ReadRate
from server.bench.arrival import Arrival
from server.bench.capacity import Admission, Capacity
from server.bench.capacity_bench import capacity_figure
from server.bench.chunk import Usage
from server.bench.compare_loads import LOADS
from server.bench.compare_plot import comparison_figure
from server.bench.comparison import compare
from server.bench.figure import COPIED, Figure
from server.bench.footprint import Footprint
from server.bench.kernels_bench import kernels_figure
from server.bench.line_fit import Line
from server.bench.load import Clients
from server.bench.load_run import LoadRun
from server.bench.measured import Measured
from server.bench.outcome import Outcome
from server.bench.scaling import Point, Sweep
from server.bench.scaling_plot import scaling_figure
from server.bench.serve_plot import serve_figure

MIB = 1 << 20


def x_labels(axes: Axes) -> list[str]:
    """Those that can be seen."""
    low, high = axes.get_xlim()
    ticks = [*zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)]
    return [label.get_text() for place, label in ticks if low <= place <= high]


def headroom(axes: Axes, highest: float) -> float:
    bottom, top = axes.get_ylim()
    assert bottom == 0
    return top / highest


def test_budgets_read_as_they_were_asked_for() -> None:
    capacities = [
        Capacity(budget * MIB, admission, 200, 0, 9, 10 * budget, 100, 0)
        for budget in (128, 1024)
        for admission in Admission
    ]
    at_once, steps = capacity_figure(capacities).axes
    assert x_labels(at_once) == x_labels(steps) == ["128", "1,024"]
    assert headroom(at_once, 10240) > 1.05


def test_a_budget_that_holds_no_request_still_has_its_tick() -> None:
    refused = Capacity(64 * MIB, Admission.PAGED, 0, 5, 0, 0.0, 0, 0)
    at_once, _ = capacity_figure([refused]).axes
    assert x_labels(at_once) == ["64"]


def test_buffers_read_in_kibibytes() -> None:
    reads = tuple(ReadRate(size * 1024, 1e9) for size in (64, 256, 262144))
    report = KernelReport(MachineRates("avx2", 2, reads, 1e9, 1e9), ())
    _, reading = kernels_figure(report).axes
    assert x_labels(reading) == ["64", "256", "262,144"]
    assert headroom(reading, 1) > 1.05


def run_of(*seconds: float) -> LoadRun:
    """Requests that take so long, two thirds of it until the first token."""
    return LoadRun(
        Clients(1), tuple(Measured(0, s, (s * 2 / 3, s), Usage(5, 2, 0)) for s in seconds)
    )


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        ((0.3, 3.0), ["500", "1,000", "2,000"]),
        ((0.0009, 9.0), ["1", "10", "100", "1,000", "10,000"]),
        ((0.043, 0.044), ["43", "43.2", "43.4", "43.6", "43.8", "44"]),
    ],
)
def test_times_are_plain_milliseconds(seconds: tuple[float, ...], labels: list[str]) -> None:
    *_, whole = serve_figure("a server", [run_of(*seconds)]).axes
    assert x_labels(whole) == labels


def test_one_request_can_be_drawn() -> None:
    *_, whole = serve_figure("a server", [run_of(0.1)]).axes
    assert "100" in x_labels(whole)


def test_sizes_are_whole_and_nothing_touches_the_frame() -> None:
    points = (Point(1, 0.01, 1), Point(2, 0.02, 2))
    sweep = Sweep("batch", "a step", "sequences", "a + b x", points, Line(0.0, 0.01, 0.0))
    arrivals = [Arrival(64, 0.01, 0.02, 0.03, 0.015, 4000, 2.0)]
    footprint = Footprint(0, 100 * MIB, 300 * MIB, 100 * MIB, 150 * MIB, 16000)
    batch, arrival, memory = scaling_figure("tiny", [sweep], arrivals, footprint).axes
    assert x_labels(batch) == ["1", "2"]
    assert headroom(batch, 20) > 1.05
    assert headroom(arrival, 2000) > 1.05
    assert headroom(memory, 300) > 1.05


EIGHT_CLIENTS = next(load for load in LOADS if load.name == "clients-8")


def told_by(server: str, more: Mapping[Figure, float] | None = None) -> Outcome:
    figures = dict.fromkeys(EIGHT_CLIENTS.shown, 5.0)
    return Outcome(0, EIGHT_CLIENTS.name, server, figures | (more or {}))


def test_a_figure_that_one_server_alone_tells_has_no_panel() -> None:
    outcomes = [told_by("theirs"), told_by("ours", {COPIED: 3.0})]
    compared = compare([EIGHT_CLIENTS], ["theirs", "ours"], outcomes)
    assert len(comparison_figure(compared).axes) == len(EIGHT_CLIENTS.shown)


def test_a_figure_that_is_not_told_has_neither_bar_nor_spread() -> None:
    outcomes = [told_by("theirs"), told_by("ours", {COPIED: 0.0}), told_by("mine", {COPIED: 0.0})]
    compared = compare([EIGHT_CLIENTS], ["theirs", "ours", "mine"], outcomes)
    *_, copied = comparison_figure(compared).axes
    assert x_labels(copied) == ["theirs\n-", "ours\n0", "mine\n0"]
    assert len(copied.patches) == 2
    assert copied.get_ylim() == (0, 1)
