"""The plot of `octavo bench compare`: a panel for each figure, a bar for each server."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from server.bench.comparison import Comparison
from server.bench.plot import from_zero, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
COLOURS = ("tab:gray", "tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple")


def comparison_figure(comparisons: Sequence[Comparison]) -> "Figure":
    grouped = groupby(comparisons, key=lambda c: (c.load.name, c.figure))
    blocks = [block for _, group in grouped if _compares(block := list(group))]
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
    return figure


def _compares(block: Sequence[Comparison]) -> bool:
    """The load is there for the figure, or several servers told it: a lone one stands in the table."""
    first = block[0]
    return first.figure in first.load.shown or sum(c.value is not None for c in block) > 1


def _draw(axes: "Axes", block: Sequence[Comparison]) -> None:
    for index, comparison in enumerate(block):
        if value := comparison.value:
            spread = ([value.median - value.low], [value.high - value.median])
            colour = COLOURS[index % len(COLOURS)]
            axes.bar(index, value.median, yerr=spread, width=0.6, capsize=4, color=colour)
    from_zero(axes, [c.value.high for c in block if c.value])
    axes.set_xlim(-0.7, len(block) - 0.3)
    axes.set_xticks(range(len(block)), [bar_label(c) for c in block], parse_math=False)
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
