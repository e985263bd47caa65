"""Tables of text. Pure."""

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[0-9.,]*[%x]?|-")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; one of numbers alone stands right."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [_is_numeric(column[1:]) for column in columns]
    lines = [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        )
        for row in (header, *rows)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _is_numeric(cells: Sequence[str]) -> bool:
    return any(cells) and all(_NUMBER.fullmatch(cell) for cell in cells)
