"""The plot of `octavo bench scaling`: each sweep's times and the line through them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from server.bench.arrival import Arrival
from server.bench.footprint import Footprint
from server.bench.plot import from_zero, new_figure
from server.bench.scaling import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
MIB = 1 << 20


def scaling_figure(
    title: str,
    sweeps: Sequence[Sweep],
    arrivals: Sequence[Arrival],
    footprint: Footprint | None,
) -> "Figure":
    num_panels = len(sweeps) + bool(arrivals) + bool(footprint)
    rows = -(-num_panels // COLUMNS)
    figure = new_figure(title, rows, COLUMNS)
    panels = [axes for row in figure.subplots(rows, COLUMNS, squeeze=False) for axes in row]
    for axes in panels[num_panels:]:
        axes.set_axis_off()
    rest = iter(panels)
    for sweep in sweeps:
        _draw_sweep(next(rest), sweep)
    if arrivals:
        _draw_arrivals(next(rest), arrivals)
    if footprint:
        _draw_footprint(next(rest), footprint)
    return figure


def _draw_sweep(axes: "Axes", sweep: Sweep) -> None:
    xs = [point.x for point in sweep.points]
    times = [point.seconds * 1e3 for point in sweep.points]
    axes.plot(xs, times, "o", label="measured")
    by_line = [(sweep.line.base + sweep.line.slope * x) * 1e3 for x in xs]
    axes.plot(xs, by_line, "-", label=f"line, residual {sweep.line.residual:.0%}")
    axes.set_title(f"{sweep.title}\n{sweep.law}", fontsize="small")
    axes.set_xlabel(sweep.x_label)
    axes.set_ylabel("milliseconds")
    axes.locator_params(axis="x", integer=True)
    from_zero(axes, [*times, *by_line])
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")


def _draw_arrivals(axes: "Axes", arrivals: Sequence[Arrival]) -> None:
    budgets = [arrival.tokens_per_step for arrival in arrivals]
    gaps = [arrival.worst_gap * 1e3 for arrival in arrivals]
    axes.plot(budgets, gaps, "o-", label="worst gap, ms")
    speeds = [arrival.prompt_tokens_per_second for arrival in arrivals]
    axes.plot(budgets, speeds, "s--", label="prompt tok/s")
    axes.set_title("a long prompt beside 4 sequences", fontsize="small")
    axes.set_xlabel("tokens in a step")
    axes.locator_params(axis="x", integer=True)
    from_zero(axes, [*gaps, *speeds])
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")


def _draw_footprint(axes: "Axes", footprint: Footprint) -> None:
    added = (footprint.full - footprint.before) / MIB
    weights, kv = footprint.weights / MIB, footprint.kv / MIB
    axes.bar("measured", added)
    axes.bar("arithmetic", weights, label="weights")
    axes.bar("arithmetic", kv, bottom=weights, label="K/V")
    axes.set_title(f"memory with {footprint.tokens:,} tokens", fontsize="small")
    axes.set_ylabel("MiB")
    from_zero(axes, [added, weights + kv])
    axes.legend(fontsize="small", loc="upper center", ncols=2)
