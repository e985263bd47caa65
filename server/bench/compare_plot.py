"""The plot of `octavo bench compare`: a panel for each figure, a bar for each server."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from server.bench.comparison import Comparison
from server.bench.plot import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 3
COLOURS = ("tab:gray", "tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple")


def plot_comparison(comparisons: Sequence[Comparison], path: Path) -> None:
    blocks = [
        list(block) for _, block in groupby(comparisons, key=lambda c: (c.load.name, c.figure))
    ]
    columns = min(COLUMNS, len(blocks))
    rows = -(-len(blocks) // columns)
    figure = new_figure(
        "Median of the rounds, lowest to highest; ratios to the first", rows, columns
    )
    panels = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for axes, block in zip(panels, blocks, strict=False):
        _draw(axes, block)
    for unused in panels[len(blocks) :]:
        unused.set_axis_off()
    save_figure(figure, path)


def _draw(axes: "Axes", block: Sequence[Comparison]) -> None:
    medians = [c.value.median if c.value else 0.0 for c in block]
    below = [c.value.median - c.value.low if c.value else 0.0 for c in block]
    above = [c.value.high - c.value.median if c.value else 0.0 for c in block]
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(block))]
    axes.bar(range(len(block)), medians, yerr=(below, above), width=0.6, capsize=4, color=colours)
    axes.set_xlim(-0.7, len(block) - 0.3)
    axes.set_xticks(range(len(block)), [bar_label(c) for c in block])
    better = "more is better" if block[0].figure.more_is_better else "less is better"
    axes.set_title(f"{block[0].load.name} ({better})", fontsize="medium")
    axes.set_ylabel(block[0].figure.label)


def bar_label(comparison: Comparison) -> str:
    """The server and its median; "-" where it does not tell the figure, as one that is no Octavo."""
    if comparison.value is None:
        return f"{comparison.server}\n{'failed' if comparison.failed else '-'}"
    ratio = f" = {comparison.ratio.median:.2f}x" if comparison.ratio else ""
    return f"{comparison.server}\n{_rounded(comparison.value.median)}{ratio}"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
