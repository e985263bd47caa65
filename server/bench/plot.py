"""PNG plots, drawn without a screen. matplotlib is imported only where a plot is asked for."""

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from server.bench.errors import BenchError
from server.standard_output import OutputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_INCHES = (5.5, 3.8)
HEADROOM = 1.12  # of the highest value: nothing touches the frame
MOST_LEVEL_LABELS = 5  # more stand aslant
WIDE = 100.0  # a span of times that powers of ten alone divide well


def check_plotting(plot: Path | None, find: Callable[[str], object] = find_spec) -> None:
    """To be asked before anything is measured. Raises BenchError where matplotlib is missing."""
    if plot is not None and find("matplotlib") is None:
        raise BenchError(f"--plot needs matplotlib: {sys.executable} -m pip install matplotlib")


def new_figure(title: str, rows: int, columns: int) -> "Figure":
    """An empty figure with room for so many panels; it belongs to nobody else, and to no window."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    width, height = PANEL_INCHES
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    figure.suptitle(title, parse_math=False)  # a name is no formula
    return figure


def from_zero(axes: "Axes", values: Sequence[float]) -> None:
    """The y axis begins at 0 and has room above the highest of `values`."""
    axes.set_ylim(0, HEADROOM * max([0.0, *values]) or 1.0)


def doubling_axis(axes: "Axes", sizes: Sequence[float]) -> None:
    """A logarithmic x axis with a tick at each of `sizes`, which reads as plain text does."""
    ticks = sorted(set(sizes))
    aslant = len(ticks) > MOST_LEVEL_LABELS
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [_plain(tick) for tick in ticks], rotation=45 if aslant else 0)
    axes.minorticks_off()


def time_axis(axes: "Axes") -> None:
    """A logarithmic x axis with plain numbers; to be called when all is drawn."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    steps = (1.0,) if high > WIDE * low else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _plain(value: float) -> str:
    return f"{value:,.8g}"


def save_figure(figure: "Figure", path: Path) -> None:
    """Raises OutputError where the file cannot be written."""
    try:
        figure.savefig(path, dpi=110, format="png")
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
