"""The request fields that completions and chat completions share."""

from typing import Annotated, Literal

from pydantic import Field

from server.api.schemas.base import RequestModel

MAX_CHOICES = 128
MAX_STOPS = 4
MAX_INT32 = 2**31 - 1

Stop = Annotated[str, Field(min_length=1, max_length=4096)]
TokenId = Annotated[int, Field(ge=0, le=MAX_INT32)]
Bias = Annotated[float, Field(ge=-100, le=100)]
# One spelling for each id: "05" beside "5" would be the same token twice.
TOKEN_KEY = "^(0|[1-9][0-9]{0,8})$"
TokenKey = Annotated[str, Field(pattern=TOKEN_KEY)]


class StreamOptions(RequestModel):
    include_usage: bool | None = Field(
        default=None, description="Send one chunk with the usage right before [DONE]."
    )
    include_obfuscation: Literal[False] | None = None


class SamplingFields(RequestModel):
    """Null means the default everywhere but in `model`."""

    model: str = Field(description="The id of the served model; see GET /v1/models.")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Default 1; 0 is greedy."
    )
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(
        default=None, ge=-1, le=MAX_INT32, description="0 and -1 mean no limit."
    )
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = Field(
        default=None,
        ge=-(2**63),
        le=2**63 - 1,
        description="The same seed gives the same text; without one each call is fresh.",
    )
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=64, fail_fast=True)] | None = None
    min_tokens: int | None = Field(
        default=None,
        ge=0,
        le=MAX_INT32,
        description="No end and no stop before this many tokens.",
    )
    ignore_eos: bool | None = Field(
        default=None, description="Go on after an end-of-text token, up to max_tokens."
    )
    logit_bias: (
        Annotated[
            dict[TokenKey, Bias],
            Field(
                max_length=300,
                fail_fast=True,
                json_schema_extra={"propertyNames": {"pattern": TOKEN_KEY}},
            ),
        ]
        | None
    ) = None
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(
        default=None,
        gt=0,
        le=10,
        description="Over prompt and answer; 1 is none.",
    )
    skip_special_tokens: bool | None = Field(
        default=None, description="Default true: special tokens never appear in the text."
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = Field(
        default=None, description="Only together with stream: true."
    )
    cache_salt: Annotated[str, Field(max_length=256)] | None = Field(
        default=None,
        description="Cached prompts are shared only among requests with the same salt.",
    )
    speculative: bool | None = Field(
        default=None,
        description="False: draft no tokens for this request. The text is the same either way.",
    )
    user: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="Accepted and not used."
    )
