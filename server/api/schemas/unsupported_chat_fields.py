"""Fields of OpenAI's chat API that are not served here: refused by name, never ignored.

A value that asks for nothing (null, an empty list, the default) is accepted, for clients that
always send the field.
"""

from typing import Annotated, Literal

from pydantic import Field

from server.api.schemas.base import RequestModel

Nothing = Annotated[list[object], Field(max_length=0)]


class TextFormat(RequestModel):
    type: Literal["text"]


class UnsupportedChatFields(RequestModel):
    audio: None = None
    function_call: Literal["none"] | None = None
    functions: Nothing | None = None
    metadata: None = None
    modalities: Annotated[list[Literal["text"]], Field(max_length=1)] | None = None
    moderation: None = None
    parallel_tool_calls: None = None
    prediction: None = None
    prompt_cache_key: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: None = None
    reasoning_effort: None = None
    response_format: TextFormat | None = None
    safety_identifier: None = None
    service_tier: Literal["auto", "default"] | None = None
    store: Literal[False] | None = None
    tool_choice: Literal["none"] | None = None
    tools: Nothing | None = None
    verbosity: None = None
    web_search_options: None = None
