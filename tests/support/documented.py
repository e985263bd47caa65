"""What docs/bench.md says of the JSON that benches write."""

import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "bench.md"


def undocumented(report: object) -> set[str]:
    """Keys that the page does not name; names of loads, figures and counters are not looked at."""
    words = set(re.findall(r"\w+", PAGE.read_text(encoding="utf-8")))
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
