"""One event of a streamed answer, of either API. Pure."""

import json
from dataclasses import dataclass

from server.bench.errors import RequestFailed


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
        event = json.loads(data)
    except ValueError as error:
        raise RequestFailed("bad chunk", f"not JSON: {data[:80]!r}") from error
    if not isinstance(event, dict):
        raise RequestFailed("bad chunk", f"no object: {data[:80]!r}")
    if event.get("error"):
        raise RequestFailed("error event", error_text(event))
    choices = event.get("choices") or [{}]
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise RequestFailed("bad chunk", f"no choices: {data[:80]!r}")
    text = _text(choices[0])
    ended = choices[0].get("finish_reason") is not None
    return Chunk(text, bool(text) or ended, _usage(event.get("usage")))


def error_text(answer: object) -> str:
    """What an error answer says, on one line of at most 200 characters."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    message = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(message).split())[:200]


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
    return Usage(
        _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached)
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
