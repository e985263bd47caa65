"""What the pages about benches say of the JSON that benches write."""

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def undocumented(report: object, page: str = "bench.md") -> set[str]:
    """Keys that the page does not name; names of loads, figures and counters are not looked at."""
    words = set(re.findall(r"\w+", (DOCS / page).read_text(encoding="utf-8")))
    return set(_keys(report)) - words


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _keys(item)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in ("counters", "failures", "figures", "loads"):
                yield from _keys(inner)
