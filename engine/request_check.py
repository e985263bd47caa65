"""What a request must be to be admitted; every refusal names the field and the numbers."""

import math

from engine.engine_stats import EngineLimits
from engine.errors import InvalidRequest, PromptTooLong
from engine.request import Request, SamplingParams

MAX_ALTERNATIVES = 20  # logprobs beside one token
MAX_LOGIT_BIAS = 100.0


def check_request(request: Request, limits: EngineLimits) -> None:
    """Raises InvalidRequest or PromptTooLong."""
    _check_prompt(request, limits)
    _check_numbers(request.sampling, limits)
    _check_token_ids(request.sampling, limits)


def _check_prompt(request: Request, limits: EngineLimits) -> None:
    prompt = request.prompt_token_ids
    if not prompt:
        raise InvalidRequest("the prompt is empty", "prompt")
    for token in prompt:
        if not 0 <= token < limits.vocab_size:
            raise InvalidRequest(
                f"token id {token} is outside the vocabulary of {limits.vocab_size}", "prompt"
            )
    room = min(request.sampling.max_tokens, 1)  # for the first token of the answer
    if len(prompt) + room > limits.max_model_len:
        raise PromptTooLong(
            f"the prompt has {len(prompt)} tokens; prompt and answer together may have "
            f"{limits.longest_and_why}",
            "prompt",
        )


def _check_numbers(sampling: SamplingParams, limits: EngineLimits) -> None:
    inf = math.inf
    bounds: tuple[tuple[str, float, float, float], ...] = (
        ("max_tokens", sampling.max_tokens, 0, inf),
        ("min_tokens", sampling.min_tokens, 0, sampling.max_tokens),
        ("temperature", sampling.temperature, 0, 2),
        ("top_p", sampling.top_p, 0, 1),
        ("top_k", sampling.top_k, 0, inf),
        ("min_p", sampling.min_p, 0, 1),
        ("n", sampling.n, 1, limits.max_num_seqs),
        ("presence_penalty", sampling.presence_penalty, -2, 2),
        ("frequency_penalty", sampling.frequency_penalty, -2, 2),
        ("repetition_penalty", sampling.repetition_penalty, 0, inf),
        ("logprobs", sampling.logprobs or 0, 0, MAX_ALTERNATIVES),
        ("prompt_logprobs", sampling.prompt_logprobs or 0, 0, MAX_ALTERNATIVES),
    )
    for name, value, low, high in bounds:
        if not low <= value <= high or value == inf:  # refuses NaN as well
            wanted = f"at least {low}" if high == inf else f"between {low} and {high}"
            raise InvalidRequest(f"{name} must be {wanted}, got {value}", name)
    for name, value in (
        ("top_p", sampling.top_p),
        ("repetition_penalty", sampling.repetition_penalty),
    ):
        if value == 0:
            raise InvalidRequest(f"{name} must be above 0", name)


def _check_token_ids(sampling: SamplingParams, limits: EngineLimits) -> None:
    for token in sampling.stop_token_ids:
        if not 0 <= token < limits.vocab_size:
            raise InvalidRequest(
                f"stop_token_ids names token id {token}, outside the vocabulary of "
                f"{limits.vocab_size}",
                "stop_token_ids",
            )
    for token, bias in sampling.logit_bias.items():
        if not 0 <= token < limits.vocab_size:
            raise InvalidRequest(
                f"logit_bias names token id {token}, outside the vocabulary of {limits.vocab_size}",
                "logit_bias",
            )
        if not -MAX_LOGIT_BIAS <= bias <= MAX_LOGIT_BIAS:  # refuses NaN as well
            raise InvalidRequest(
                f"logit_bias must be between -100 and 100, got {bias} for token id {token}",
                "logit_bias",
            )
