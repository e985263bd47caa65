"""A request: one generation call, immutable, in token ids."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the tokens of a request are chosen. The bounds of each value are in request_check.

    temperature 0 is greedy. `top_k` 0 means no limit. `logprobs` and `prompt_logprobs` give the
    number of alternatives reported beside each token (0: the token's own only); None: no report.
    `max_tokens` 0 computes the prompt and generates nothing (prompt scoring).
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0
    n: int = 1
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_token_ids: frozenset[int] = frozenset()
    logit_bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    @property
    def has_penalty(self) -> bool:
        additive = self.presence_penalty != 0.0 or self.frequency_penalty != 0.0
        return additive or self.repetition_penalty != 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """One generation call.

    `request_id` is unique among live requests and made by the caller, never taken from a client.
    `cache_salt` keeps requests with different salts from sharing cached pages. Without
    `speculative` no token is drafted for it.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    cache_salt: str = ""
    speculative: bool = True
