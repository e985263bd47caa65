"""Values of the flags of benches; each parser raises ArgumentTypeError, which names the flag."""

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping

from server.flag_values import not_empty

MOST_REQUESTS = 1_000_000  # all are planned before the first is sent


def one_or_more(parse: Callable[[str], float]) -> Callable[[str], tuple[float, ...]]:
    """Values with commas between them."""

    def parse_all(text: str) -> tuple[float, ...]:
        return tuple(parse(part) for part in text.split(","))

    return parse_all


def named(parse: Callable[[str], object]) -> Callable[[str], tuple[str, object]]:
    """NAME=VALUE."""

    def parse_both(text: str) -> tuple[str, object]:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
        return sendable(name.strip()), parse(value)

    return parse_both


def sendable(text: str) -> str:
    """What can travel as UTF-8; not empty."""
    try:
        not_empty(text).encode()
    except UnicodeEncodeError as error:
        raise ArgumentTypeError(f"{text!r} is not UTF-8") from error
    return text


def json_object(text: str) -> Mapping[str, object]:
    """An object of which other JSON can be made: without NaN, infinities, and halves of characters."""
    shown = repr(text[:80])
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise ArgumentTypeError(f"{shown} is not JSON: {error}") from error
    except RecursionError as error:
        raise ArgumentTypeError(f"{shown} is nested too deep") from error
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"{shown} is no JSON object")
    return value
