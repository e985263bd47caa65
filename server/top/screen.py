"""A terminal drawn over in place, and left as it was found."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

OPEN = "\x1b[?1049h\x1b[?25l"  # another screen, no cursor
CLOSE = "\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
END_OF_LINE = "\x1b[K"
REST = "\x1b[J"


class Screen:
    """Draws frames over each other; made by `open_screen`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def draw(self, lines: Sequence[str]) -> None:
        text = "\n".join(line + END_OF_LINE for line in lines)
        self._out.write(HOME + text + REST)
        self._out.flush()


@contextmanager
def open_screen(out: TextIO) -> Iterator[Screen]:
    """Whatever ends the view, the terminal is as before."""
    out.write(OPEN)
    try:
        yield Screen(out)
    finally:
        out.write(CLOSE)
        out.flush()
