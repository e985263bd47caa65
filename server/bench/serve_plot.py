"""The plot of `octavo bench serve`: throughput of each load, and how its times are spread."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from server.bench.load_report import report_of
from server.bench.load_run import LoadRun
from server.bench.plot import from_zero, new_figure, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def serve_figure(title: str, runs: Sequence[LoadRun]) -> "Figure":
    figure = new_figure(title, 2, 2)
    (speed, first), (between, whole) = figure.subplots(2, 2)
    _draw_speed(speed, runs)
    done = [[request for request in run.requests if request.failure is None] for run in runs]
    names = [str(run.pace) for run in runs]
    _draw_shares(first, "first token", names, [[r.ttft for r in part] for part in done])
    gaps = [[gap for request in part for gap in request.gaps] for part in done]
    _draw_shares(between, "between tokens", names, gaps)
    _draw_shares(whole, "whole request", names, [[r.seconds for r in part] for part in done])
    return figure


def _draw_speed(axes: "Axes", runs: Sequence[LoadRun]) -> None:
    reports = [report_of(run) for run in runs]
    speeds = [report.output_tokens_per_second for report in reports]
    bars = axes.bar([str(report.pace) for report in reports], speeds, color="tab:blue")
    axes.bar_label(bars, fmt="%.1f")
    axes.set_xlabel("load")
    axes.set_ylabel("output tokens per second")
    from_zero(axes, speeds)


def _draw_shares(
    axes: "Axes", what: str, names: Sequence[str], seconds: Sequence[Sequence[float]]
) -> None:
    """How large a share of the times is at most so long: one curve for each load."""
    for name, values in zip(names, seconds, strict=True):
        if values:
            axes.ecdf([value * 1000 for value in values], label=name)
    if any(seconds):
        axes.legend(fontsize="small")
        time_axis(axes)
    axes.set_xlabel(f"{what}, milliseconds")
    axes.set_ylabel("share of all")
    axes.grid(visible=True, alpha=0.3)
