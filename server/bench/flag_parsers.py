"""Values of the flags of benches; each parser raises ArgumentTypeError, which names the flag."""

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping


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
        return name.strip(), parse(value)

    return parse_both


def json_object(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"{text!r} is no JSON object")
    return value
