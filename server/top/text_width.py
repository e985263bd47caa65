"""Text of others on a terminal: cut to a width, without anything that the terminal would obey."""

import unicodedata

CUT = "…"


def harmless(text: str) -> str:
    """Control characters and whatever else is not shown become question marks."""
    return "".join(char if char.isprintable() else "?" for char in text)


def columns_of(text: str) -> int:
    return sum(_columns(char) for char in text)


def fit(text: str, columns: int) -> str:
    """Exactly `columns` wide: cut, or filled with blanks."""
    if columns_of(text) > columns:
        text = _cut(text, columns)
    return text + " " * (columns - columns_of(text))


def fit_middle(text: str, columns: int) -> str:
    """As `fit`, but both ends of the text stay: the end of a name tells it from its like."""
    if columns_of(text) > columns:
        end = _end(text, (columns - columns_of(CUT)) // 2)
        text = _cut(text, columns - columns_of(end)) + end
    return fit(text, columns)


def _cut(text: str, columns: int) -> str:
    kept, width = "", columns_of(CUT)
    if width > columns:
        return ""
    for char in text:
        width += _columns(char)
        if width > columns:
            break
        kept += char
    return kept + CUT


def _end(text: str, columns: int) -> str:
    """As much of the end as has room, from a whole character on."""
    start, width = len(text), 0
    for place in range(len(text) - 1, -1, -1):
        width += _columns(text[place])
        if width > columns:
            break
        if _columns(text[place]):
            start = place
    return text[start:]


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
