"""From request fields to the engine's SamplingParams: defaults are filled in here.

What depends on the model (token ids, its context) the engine checks at admission.
"""

import secrets
from types import MappingProxyType
from typing import TypeVar

from engine.errors import InvalidRequest
from engine.request import SamplingParams
from server.api.schemas.sampling_fields import SamplingFields
from server.api.text_rules import TextRules

T = TypeVar("T")


def sampling_params(
    fields: SamplingFields,
    *,
    max_tokens: int,
    n: int,
    logprobs: int | None,
    prompt_logprobs: int | None,
) -> SamplingParams:
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=_or(fields.temperature, 1.0),
        top_p=_or(fields.top_p, 1.0),
        top_k=max(_or(fields.top_k, 0), 0),
        min_p=_or(fields.min_p, 0.0),
        seed=_seed(fields.seed),
        n=n,
        min_tokens=_or(fields.min_tokens, 0),
        ignore_eos=bool(fields.ignore_eos),
        stop_token_ids=frozenset(fields.stop_token_ids or ()),
        logit_bias=MappingProxyType({int(key): v for key, v in (fields.logit_bias or {}).items()}),
        presence_penalty=_or(fields.presence_penalty, 0.0),
        frequency_penalty=_or(fields.frequency_penalty, 0.0),
        repetition_penalty=_or(fields.repetition_penalty, 1.0),
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
    )


def text_rules(fields: SamplingFields, *, echo: bool, logprobs: bool) -> TextRules:
    stop = fields.stop or ()
    return TextRules(
        stops=(stop,) if isinstance(stop, str) else tuple(stop),
        min_tokens=_or(fields.min_tokens, 0),
        skip_special=_or(fields.skip_special_tokens, True),
        echo=echo,
        logprobs=logprobs,
    )


def check_stream_options(fields: SamplingFields) -> None:
    if fields.stream_options is not None and not fields.stream:
        raise InvalidRequest(
            "'stream_options' is only allowed together with 'stream': true.", "stream_options"
        )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _seed(seed: int | None) -> int:
    """As an unsigned 64-bit number; a fresh one where the client gave none."""
    return secrets.randbits(64) if seed is None else seed % 2**64
