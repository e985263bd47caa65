"""PNG plots, drawn without a screen. matplotlib is imported only where a plot is asked for."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from server.bench.errors import BenchError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL_INCHES = (5.5, 3.8)


def check_plotting(plot: Path | None, find: Callable[[str], object] = find_spec) -> None:
    """To be asked before anything is measured. Raises BenchError where matplotlib is missing."""
    if plot is not None and find("matplotlib") is None:
        raise BenchError("--plot needs matplotlib: pip install 'octavo[bench]'")


def new_figure(title: str, rows: int, columns: int) -> "Figure":
    """An empty figure with room for so many panels; it belongs to nobody else, and to no window."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    width, height = PANEL_INCHES
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    figure.suptitle(title)
    return figure


def save_figure(figure: "Figure", path: Path) -> None:
    """Raises BenchError where the file cannot be written."""
    try:
        figure.savefig(path, dpi=110, format="png")
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error
