"""From a JSON object to a typed request; what is wrong with it is said in this API's own words."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from engine.errors import InvalidRequest
from server.api.schemas.base import RequestModel
from server.api.schemas.unsupported_chat_fields import UnsupportedChatFields
from server.errors import UnknownField, UnsupportedField

T = TypeVar("T", bound=RequestModel)

MAX_NAME = 64  # characters of a client's own key that a message repeats
UNSUPPORTED = frozenset(UnsupportedChatFields.model_fields)
# Types of pydantic's whose own words would name Python things.
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "model_type": "must be an object",
        "dict_type": "must be an object",
        "union_tag_invalid": "has no role that is supported here: system, developer, user, assistant",
        "union_tag_not_found": "must be an object with a role",
        "string_unicode": "must be valid Unicode text",
    }
)
# A union's own errors name its branches; these fields are better said in one sentence.
UNIONS: Mapping[str, str] = MappingProxyType(
    {
        "prompt": "must be a text, a list of texts, a list of token ids or a list of such lists "
        "(not empty, at most 256 prompts)",
        "stop": "must be a text of 1 to 4096 characters or a list of at most 4 such texts",
        "content": "must be a text or a list of text parts; other parts are not supported",
    }
)


def validate(model: type[T], value: Mapping[str, object]) -> T:
    """`value` as `model`; raises InvalidRequest, UnknownField or UnsupportedField."""
    try:
        return model.model_validate(value)
    except ValidationError as failure:
        details = failure.errors(include_url=False, include_context=False, include_input=False)
        raise _explain(details[0], value) from failure


def _explain(detail: ErrorDetails, value: Mapping[str, object]) -> InvalidRequest:
    path = _path(detail["loc"], value, missing=detail["type"] == "missing")
    name = _spell(path)
    if detail["type"] == "extra_forbidden":
        return UnknownField(f"'{name}' is not a field of this request.", name)
    if path and path[0] in UNSUPPORTED:
        name = str(path[0])
        return UnsupportedField(f"'{name}' is not supported by this server.", name)
    if detail["type"] == "none_required":
        return UnsupportedField(f"'{name}' is not supported by this server.", name)
    return InvalidRequest(f"'{name}' {_words(detail, path)}.", name)


def _words(detail: ErrorDetails, path: Sequence[str | int]) -> str:
    if detail["type"] == "missing":
        return "is required"
    for part in path:
        if part in UNIONS:
            return UNIONS[str(part)]
    if detail["type"] in WORDS:
        return WORDS[detail["type"]]
    message = detail["msg"].removeprefix("Value error, ")
    for opening in ("Input should", "List should", "String should", "Dictionary should"):
        message = message.replace(opening, "should")
    return message.replace(" after validation", "")


def _path(
    loc: Sequence[str | int], value: Mapping[str, object], *, missing: bool
) -> list[str | int]:
    """`loc` without the names of union branches, which are no part of the request."""
    path: list[str | int] = []
    here: object = value
    for part in loc:
        inner = _inside(here, part)
        if inner is not None:
            here = inner[0]
            path.append(part)
    if missing:
        path.append(loc[-1])
    return path


def _inside(value: object, part: str | int) -> tuple[object] | None:
    """What `value` has at `part`, in a tuple of one; None where it has no such part."""
    if isinstance(value, Mapping) and part in value:
        return (value[part],)
    if isinstance(value, list) and isinstance(part, int):
        return (value[part],)
    return None


def _spell(path: Sequence[str | int]) -> str:
    """messages, 0, content -> messages[0].content"""
    spelt = ""
    for part in path:
        spelt += f"[{part}]" if isinstance(part, int) else f".{part[:MAX_NAME]}"
    return spelt.removeprefix(".")
