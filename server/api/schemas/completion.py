"""POST /v1/completions: request, answer, stream chunk."""

from typing import Annotated, Literal

from pydantic import Field

from server.api.schemas.base import ResponseModel
from server.api.schemas.sampling_fields import MAX_CHOICES, MAX_INT32, SamplingFields, TokenId
from server.api.schemas.usage import Usage

MAX_PROMPTS = 256
MAX_LOGPROBS = 20

TokenIds = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)]
TokenIdLists = Annotated[
    list[TokenIds], Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)
]


class CompletionRequest(SamplingFields):
    prompt: str | Texts | TokenIds | TokenIdLists = Field(
        description="A text, a list of texts, a list of token ids, or a list of such lists.",
        union_mode="left_to_right",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=0,
        le=MAX_INT32,
        description="Default 16. 0 computes the prompt only: with echo and logprobs it is scored.",
    )
    best_of: int | None = Field(
        default=None,
        ge=1,
        le=MAX_CHOICES,
        description="Make this many, answer the n with the best mean log probability.",
    )
    echo: bool | None = Field(default=None, description="Begin the text with the prompt.")
    logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    add_special_tokens: bool | None = Field(
        default=None,
        description="Default true: begin a text prompt with the model's BOS, where it has one.",
    )
    parse_special_tokens: bool | None = Field(
        default=None,
        description="Default false: the text of a special token in a prompt is plain text.",
    )
    suffix: None = Field(default=None, description="Not supported.")


class CompletionLogprobs(ResponseModel):
    """One entry per token of the text, in the legacy shape."""

    tokens: list[str] = Field(
        description="A token that is no whole text reads bytes:\\x.. for its raw bytes."
    )
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int] = Field(description="In characters, from the start of this text.")


class CompletionChoice(ResponseModel):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class Completion(ResponseModel):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class CompletionChunk(ResponseModel):
    """`usage` is there only where stream_options.include_usage asks for it: null but in the last."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
