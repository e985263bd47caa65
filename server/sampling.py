"""From request fields to the engine's SamplingParams: defaults are filled in here."""

import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from engine.errors import InvalidRequest
from engine.request import SamplingParams
from server.schemas.sampling_fields import SamplingFields
from server.text_rules import TextRules

T = TypeVar("T")


def sampling_params(  # noqa: PLR0913 - one argument for each field the two APIs spell differently
    fields: SamplingFields,
    *,
    max_tokens: int,
    n: int,
    logprobs: int | None,
    prompt_logprobs: int | None,
    vocab_size: int,
) -> SamplingParams:
    """Raises InvalidRequest for token ids that the model does not have."""
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=_or(fields.temperature, 1.0),
        top_p=_or(fields.top_p, 1.0),
        top_k=max(_or(fields.top_k, 0), 0),
        min_p=_or(fields.min_p, 0.0),
        seed=_seed(fields.seed),
        n=n,
        min_tokens=_min_tokens(fields, max_tokens),
        ignore_eos=bool(fields.ignore_eos),
        stop_token_ids=_stop_token_ids(fields, vocab_size),
        logit_bias=_logit_bias(fields, vocab_size),
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


def _min_tokens(fields: SamplingFields, max_tokens: int) -> int:
    min_tokens = _or(fields.min_tokens, 0)
    if min_tokens > max_tokens:
        raise InvalidRequest(
            f"'min_tokens' is {min_tokens}, more than the {max_tokens} tokens allowed.",
            "min_tokens",
        )
    return min_tokens


def _stop_token_ids(fields: SamplingFields, vocab_size: int) -> frozenset[int]:
    token_ids = frozenset(fields.stop_token_ids or ())
    _check_ids(token_ids, vocab_size, "stop_token_ids")
    return token_ids


def _logit_bias(fields: SamplingFields, vocab_size: int) -> Mapping[int, float]:
    bias = {int(key): value for key, value in (fields.logit_bias or {}).items()}
    _check_ids(frozenset(bias), vocab_size, "logit_bias")
    return MappingProxyType(bias)


def _check_ids(token_ids: frozenset[int], vocab_size: int, param: str) -> None:
    if token_ids and max(token_ids) >= vocab_size:
        raise InvalidRequest(
            f"'{param}' has token id {max(token_ids)}; the model's end at {vocab_size - 1}.", param
        )
