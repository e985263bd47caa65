"""What the engine tells of a sequence: one new token, or its end."""

from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    STOP = "stop"  # an eos or stop token id was generated
    LENGTH = "length"  # max_tokens or the context limit was reached
    ABORT = "abort"  # the caller asked for the end
    ERROR = "error"  # this sequence failed; `error` says how


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log probability of one token and of the likeliest alternatives, best first."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One new token of one sequence, its end, or both in one.

    `token_id` is None where the end brings no token. A stop token that ended the sequence is
    reported in `token_id` with `finish_reason` stop, so that it is counted; it is no text.
    `prompt_logprobs` comes once, with the first event of a sequence whose request asked for it:
    one entry per prompt token, the first None. `cached_tokens` is the number of prompt tokens
    whose K/V came from the prefix cache.
    """

    request_id: str
    index: int  # which of the request's n sequences
    token_id: int | None = None
    logprob: TokenLogprob | None = None
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    cached_tokens: int = 0
    finish_reason: FinishReason | None = None
    error: str | None = None
