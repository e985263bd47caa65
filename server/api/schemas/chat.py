"""POST /v1/chat/completions: request, answer, stream chunk."""

from typing import Literal

from pydantic import Field, JsonValue

from server.api.schemas.base import ResponseModel
from server.api.schemas.chat_message import Messages
from server.api.schemas.sampling_fields import MAX_INT32, SamplingFields
from server.api.schemas.unsupported_chat_fields import UnsupportedChatFields
from server.api.schemas.usage import Usage


class ChatRequest(SamplingFields, UnsupportedChatFields):
    messages: Messages
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    max_completion_tokens: int | None = Field(
        default=None,
        ge=1,
        le=MAX_INT32,
        description="The newer name of max_tokens; the smaller of the two counts. "
        "Default: what the context leaves.",
    )
    logprobs: bool | None = None
    top_logprobs: int | None = Field(
        default=None, ge=0, le=20, description="Only together with logprobs: true."
    )
    add_generation_prompt: bool | None = Field(
        default=None,
        description="Default true: let the template open the assistant's turn.",
    )
    continue_final_message: bool | None = Field(
        default=None,
        description="Go on with the last message, which must be the assistant's, as if unfinished.",
    )
    chat_template_kwargs: dict[str, JsonValue] | None = Field(
        default=None, description="Further variables for the chat template."
    )


class TopLogprob(ResponseModel):
    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(ResponseModel):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(ResponseModel):
    content: list[ChatTokenLogprob]
    refusal: None = None


class AnswerMessage(ResponseModel):
    role: Literal["assistant"]
    content: str
    refusal: None = None


class ChatChoice(ResponseModel):
    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length"]


class ChatCompletion(ResponseModel):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Delta(ResponseModel):
    """The first of a choice carries the role, the last is empty."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChunkChoice(ResponseModel):
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class ChatChunk(ResponseModel):
    """`usage` is there only where stream_options.include_usage asks for it: null but in the last."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
