"""Strict JSON: what a lenient parser would let through is refused with a message that says why.

Refused: invalid UTF-8, lone surrogates, NaN and Infinity, numbers out of range, duplicate keys,
nesting deeper than MAX_DEPTH, anything but an object at the top.
"""

import json
import math
from collections import Counter
from typing import NoReturn

from engine.errors import InvalidRequest

MAX_DEPTH = 64
EXACT = 2**53  # below it every integer is a float of its own


def parse_object(body: bytes) -> dict[str, object]:
    """The JSON object in `body`; raises InvalidRequest."""
    value = _parse(_decode(body))
    if not isinstance(value, dict):
        raise InvalidRequest("The request body must be a JSON object.")
    # Both checks walk the whole value, so they run only where the bytes leave a doubt.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    if rb"\ud" in body.lower():
        _check_surrogates(value)
    return value


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest("The request body is not valid UTF-8.") from error


def _parse(text: str) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_number,
        )
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"The request body is not valid JSON: line {error.lineno} column {error.colno}."
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidRequest("The request body has a number out of range.") from error


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidRequest(f"The request body has a key twice: {_repeated(pairs)!a}.")
    return found


def _repeated(pairs: list[tuple[str, object]]) -> str:
    counts = Counter(key for key, _ in pairs)
    return counts.most_common(1)[0][0]


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"The request body has {name}, which is not JSON.")


def _number(text: str) -> int | float:
    """5.0 is the integer 5: JSON has one kind of number, and some clients write all of them so."""
    number = float(text)
    if not math.isfinite(number):
        raise InvalidRequest("The request body has a number out of range.")
    return int(number) if number.is_integer() and abs(number) < EXACT else number


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise _too_deep()


def _check_surrogates(value: object) -> None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, dict):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest("The request body has a lone surrogate, which is no text.") from error


def _too_deep() -> InvalidRequest:
    return InvalidRequest(f"The request body is nested deeper than {MAX_DEPTH} levels.")
