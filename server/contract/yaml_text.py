"""Plain JSON values as YAML text: block style, strings quoted as in JSON.

For text of the basic multilingual plane: JSON's pairs of escapes are no YAML.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

_PLAIN_KEY = re.compile(r"[A-Za-z_$/][A-Za-z0-9_$./{}-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def to_yaml(value: Mapping[str, object]) -> str:
    """The same value always gives the same text, keys in their own order."""
    return "\n".join(_mapping(value, "")) + "\n" if value else "{}\n"


def _mapping(value: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, item in value.items():
        yield from _entry(f"{indent}{_key(key)}:", item, indent + "  ")


def _sequence(value: Sequence[object], indent: str) -> Iterator[str]:
    for item in value:
        if _is_block(item):
            first, *rest = _block(item, indent + "  ")
            yield f"{indent}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{indent}- {_scalar(item)}"


def _entry(head: str, item: object, indent: str) -> Iterator[str]:
    if _is_block(item):
        yield head
        yield from _block(item, indent)
    else:
        yield f"{head} {_scalar(item)}"


def _block(item: object, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping):
        return _mapping(item, indent)
    assert isinstance(item, list | tuple), "nothing else is a block"
    return _sequence(item, indent)


def _is_block(item: object) -> bool:
    """Empty containers are written inline, as in JSON."""
    return isinstance(item, Mapping | list | tuple) and bool(item)


def _scalar(item: object) -> str:
    text = json.dumps(item)
    if isinstance(item, float) and "." not in text:
        return text.replace("e", ".0e")  # older readers take 1e-07 for a text
    return text


def _key(key: str) -> str:
    plain = _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS
    return key if plain else json.dumps(key)
