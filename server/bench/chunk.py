"""One event of a streamed answer, of either API. Pure."""

import json
from dataclasses import dataclass

from server.bench.errors import RequestFailed

MOST_TOKENS = 10**9  # of one request; a server that counts more is broken


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int  # of the prompt, found in a prefix cache; 0 where the server does not say


@dataclass(frozen=True, slots=True)
class Chunk:
    """`is_answer`: it has text, or it says that a choice has ended."""

    text: str = ""
    is_answer: bool = False
    usage: Usage | None = None


def read_chunk(data: str) -> Chunk:
    """Raises RequestFailed: "error event" where the server reports one, "bad chunk" where it is none."""
    try:
        return _chunk(_event(data), data)
    except RecursionError as error:
        raise _bad_chunk("nested too deep", data) from error


def error_text(answer: object) -> str:
    """What an error answer says. Raises RecursionError where that is nested too deep."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    message = error.get("message", error) if isinstance(error, dict) else error
    return str(message)


def _event(data: str) -> dict[str, object]:
    try:
        event = json.loads(data)
    except ValueError as error:
        raise _bad_chunk("not JSON", data) from error
    if not isinstance(event, dict):
        raise _bad_chunk("no object", data)
    return event


def _chunk(event: dict[str, object], data: str) -> Chunk:
    if event.get("error"):
        raise RequestFailed("error event", error_text(event))
    choices = event.get("choices") or [{}]
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise _bad_chunk("no choices", data)
    text = _text(choices[0])
    ended = choices[0].get("finish_reason") is not None
    return Chunk(text, bool(text) or ended, _usage(event.get("usage")))


def _bad_chunk(what: str, data: str) -> RequestFailed:
    return RequestFailed("bad chunk", f"{what}: {data[:80]!r}")


def _text(choice: dict[str, object]) -> str:
    delta = choice.get("delta")
    parts = delta if isinstance(delta, dict) else choice
    found = (parts.get(name) for name in ("text", "content", "reasoning_content", "reasoning"))
    return "".join(text for text in found if isinstance(text, str))


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    counted = (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)
    prompt, output, cached = (_count(value) for value in counted)
    if prompt < cached:
        raise _bad_chunk("more cached tokens than prompt tokens", str(usage))
    return Usage(prompt, output, cached)


def _count(value: object) -> int:
    """0 where the server does not say."""
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise _bad_chunk("no count of tokens", str(value))
    return value
