"""What is refused at the door, with the field and the numbers in the message."""

import math
from dataclasses import fields, replace

import pytest

from engine.engine_stats import EngineLimits
from engine.errors import InvalidRequest, PromptTooLong
from engine.request import Request, SamplingParams
from engine.request_check import check_request

LIMITS = EngineLimits(max_model_len=20, max_num_seqs=8, vocab_size=100)
SAMPLING = SamplingParams(max_tokens=4)
REQUEST = Request("r", (1, 2, 3), SAMPLING)

# Each numeric field: the smallest and the largest good value, values just outside, and the wording.
BOUNDS = {
    "max_tokens": (0, 10**400, [-1], "at least 0"),
    "min_tokens": (0, 4, [-1, 5], "between 0 and 4"),
    "temperature": (0.0, 2.0, [-0.001, 2.001], "between 0 and 2"),
    "top_p": (1e-9, 1.0, [-0.001, 1.001], "between 0 and 1"),
    "top_k": (0, 10**400, [-1], "at least 0"),
    "min_p": (0.0, 1.0, [-0.001, 1.001], "between 0 and 1"),
    "n": (1, 8, [0, 9], "between 1 and 8"),
    "presence_penalty": (-2.0, 2.0, [-2.001, 2.001], "between -2 and 2"),
    "frequency_penalty": (-2.0, 2.0, [-2.001, 2.001], "between -2 and 2"),
    "repetition_penalty": (1e-9, 1e9, [-0.001], "at least 0"),
    "logprobs": (0, 20, [-1, 21], "between 0 and 20"),
    "prompt_logprobs": (0, 20, [-1, 21], "between 0 and 20"),
}
ANY_VALUE = {"seed", "ignore_eos"}
TOKEN_IDS = {"stop_token_ids", "logit_bias"}

GOOD = [(name, value) for name, bound in BOUNDS.items() for value in bound[:2]]
BAD = [(name, value) for name, bound in BOUNDS.items() for value in bound[2]]
NOT_FINITE = [(name, value) for name in BOUNDS for value in (math.nan, math.inf, -math.inf)]


def with_sampling(**changes: object) -> Request:
    return replace(REQUEST, sampling=replace(SAMPLING, **changes))  # type: ignore[arg-type]


def refusal(request: Request) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        check_request(request, LIMITS)
    return caught.value


def test_every_field_of_the_sampling_has_a_test_here() -> None:
    assert {field.name for field in fields(SamplingParams)} == {*BOUNDS, *ANY_VALUE, *TOKEN_IDS}


def test_an_ordinary_request_is_admitted() -> None:
    check_request(REQUEST, LIMITS)


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_the_bounds_themselves_are_admitted(name: str, value: object) -> None:
    check_request(with_sampling(**{name: value}), LIMITS)


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_outside_its_bounds_is_refused_by_name(name: str, value: object) -> None:
    error = refusal(with_sampling(**{name: value}))
    assert error.param == name
    assert str(error) == f"{name} must be {BOUNDS[name][3]}, got {value}"


@pytest.mark.parametrize(("name", "value"), NOT_FINITE)
def test_a_number_that_is_not_finite_is_refused_by_name(name: str, value: object) -> None:
    assert refusal(with_sampling(**{name: value})).param == name


@pytest.mark.parametrize("name", ["top_p", "repetition_penalty"])
def test_what_is_divided_by_or_cut_at_must_be_above_zero(name: str) -> None:
    error = refusal(with_sampling(**{name: 0.0}))
    assert (error.param, str(error)) == (name, f"{name} must be above 0")


@pytest.mark.parametrize("seed", [-(2**70), 0, 2**70])
def test_any_seed_is_admitted(seed: int) -> None:
    check_request(with_sampling(seed=seed), LIMITS)


def test_a_large_bound_is_told_in_full() -> None:
    request = with_sampling(max_tokens=1234567, min_tokens=1234568)
    assert str(refusal(request)) == "min_tokens must be between 0 and 1234567, got 1234568"


# --- the prompt ---


def test_an_empty_prompt_is_refused() -> None:
    error = refusal(replace(REQUEST, prompt_token_ids=()))
    assert (error.param, str(error)) == ("prompt", "the prompt is empty")


@pytest.mark.parametrize("token", [-1, 100])
def test_a_prompt_token_outside_the_vocabulary_is_refused(token: int) -> None:
    error = refusal(replace(REQUEST, prompt_token_ids=(1, token)))
    assert error.param == "prompt"
    assert str(error) == f"token id {token} is outside the vocabulary of 100"


@pytest.mark.parametrize("token", [0, 99])
def test_the_first_and_the_last_token_of_the_vocabulary_are_admitted(token: int) -> None:
    check_request(replace(REQUEST, prompt_token_ids=(token,)), LIMITS)


def test_a_prompt_must_leave_room_for_one_token_of_the_answer() -> None:
    check_request(replace(REQUEST, prompt_token_ids=(1,) * 19), LIMITS)
    error = refusal(replace(REQUEST, prompt_token_ids=(1,) * 20))
    assert isinstance(error, PromptTooLong)
    assert error.param == "prompt"
    assert str(error) == (
        "the prompt has 20 tokens; prompt and answer together may have 20, the model's context"
    )


def test_a_prompt_that_is_only_scored_may_fill_the_context() -> None:
    scored = with_sampling(max_tokens=0)
    check_request(replace(scored, prompt_token_ids=(1,) * 20), LIMITS)
    assert isinstance(refusal(replace(scored, prompt_token_ids=(1,) * 21)), PromptTooLong)


# --- token ids in the sampling ---


@pytest.mark.parametrize("token", [-1, 100])
def test_a_stop_token_outside_the_vocabulary_is_refused(token: int) -> None:
    error = refusal(with_sampling(stop_token_ids=frozenset({5, token})))
    assert error.param == "stop_token_ids"
    assert str(error) == f"stop_token_ids names token id {token}, outside the vocabulary of 100"


@pytest.mark.parametrize("token", [-1, 100])
def test_a_bias_for_a_token_outside_the_vocabulary_is_refused(token: int) -> None:
    error = refusal(with_sampling(logit_bias={5: 1.0, token: 1.0}))
    assert error.param == "logit_bias"
    assert str(error) == f"logit_bias names token id {token}, outside the vocabulary of 100"


@pytest.mark.parametrize("bias", [-100.001, 100.001, math.nan, math.inf, -math.inf])
def test_a_bias_outside_its_bounds_is_refused(bias: float) -> None:
    error = refusal(with_sampling(logit_bias={5: bias}))
    assert error.param == "logit_bias"
    assert str(error) == f"logit_bias must be between -100 and 100, got {bias} for token id 5"


@pytest.mark.parametrize("token", [0, 99])
@pytest.mark.parametrize("bias", [-100.0, 100.0])
def test_the_bounds_of_a_bias_are_admitted(token: int, bias: float) -> None:
    check_request(with_sampling(logit_bias={token: bias}), LIMITS)


@pytest.mark.parametrize("token", [0, 99])
def test_the_bounds_of_a_stop_token_are_admitted(token: int) -> None:
    check_request(with_sampling(stop_token_ids=frozenset({token})), LIMITS)
