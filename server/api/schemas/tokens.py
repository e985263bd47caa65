"""POST /tokenize and /detokenize."""

from typing import Annotated

from pydantic import Field, JsonValue

from server.api.schemas.base import RequestModel, ResponseModel
from server.api.schemas.chat_message import Messages
from server.api.schemas.sampling_fields import TokenId


class TokenizeRequest(RequestModel):
    """Either a prompt or messages, never both."""

    model: str
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool | None = Field(
        default=None, description="Default true, as in /v1/completions. For a prompt."
    )
    parse_special_tokens: bool | None = Field(
        default=None, description="Default false, as in /v1/completions. For a prompt."
    )
    add_generation_prompt: bool | None = Field(
        default=None, description="Default true, as in /v1/chat/completions. For messages."
    )
    continue_final_message: bool | None = Field(
        default=None, description="As in /v1/chat/completions. For messages."
    )
    chat_template_kwargs: dict[str, JsonValue] | None = None
    return_token_strs: bool | None = Field(default=None, description="Add the text of each token.")


class TokenizeResponse(ResponseModel):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeRequest(RequestModel):
    model: str
    tokens: Annotated[list[TokenId], Field(fail_fast=True)]
    skip_special_tokens: bool | None = Field(
        default=None, description="Default false: special tokens are written out."
    )


class DetokenizeResponse(ResponseModel):
    prompt: str
