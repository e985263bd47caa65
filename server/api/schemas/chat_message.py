"""The messages of a chat request: text only, one closed schema per role."""

from typing import Annotated, Literal

from pydantic import Field

from server.api.schemas.base import RequestModel


class TextPart(RequestModel):
    type: Literal["text"]
    text: str


TextParts = Annotated[list[TextPart], Field(max_length=256, fail_fast=True)]
Name = Annotated[str, Field(max_length=512)]


class SystemMessage(RequestModel):
    """`developer` is another word for `system`."""

    role: Literal["system", "developer"]
    content: str | TextParts
    name: Name | None = None


class UserMessage(RequestModel):
    role: Literal["user"]
    content: str | TextParts
    name: Name | None = None


class AssistantMessage(RequestModel):
    """An earlier answer; what a client got back may be sent again as it is."""

    role: Literal["assistant"]
    content: str | TextParts | None = None
    name: Name | None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    tool_calls: Annotated[list[object], Field(max_length=0)] | None = None
    annotations: Annotated[list[object], Field(max_length=0)] | None = None


Message = Annotated[SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")]
Messages = Annotated[list[Message], Field(min_length=1, max_length=2048, fail_fast=True)]
