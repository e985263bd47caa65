import math
from collections import Counter

import numpy as np
import pytest

from engine.request import SamplingParams
from engine.sampler import SamplingFault, is_plain_greedy, sample, token_logprob
from engine.step_batch import Draw, History

LOGITS = np.array([1.0, 3.0, 2.0, -1.0, 3.0], np.float32)


def draw(sampling: SamplingParams, position: int = 9, **more: object) -> Draw:
    return Draw(sampling, index=0, position=position, **more)  # type: ignore[arg-type]


def sampled(sampling: SamplingParams, count: int = 4000) -> Counter[int]:
    draws = (sample(LOGITS, draw(sampling, position)) for position in range(count))
    return Counter(drawn.token_id for drawn in draws if drawn.token_id is not None)


def frequencies(sampling: SamplingParams, count: int = 4000) -> list[float]:
    counts = sampled(sampling, count)
    return [counts[token] / count for token in range(len(LOGITS))]


def softmax(logits: np.ndarray) -> list[float]:
    weights = np.exp(logits - logits.max())
    return list(weights / weights.sum())


def test_temperature_zero_takes_the_first_of_the_largest() -> None:
    assert sample(LOGITS, draw(SamplingParams(1, temperature=0))).token_id == 1


def test_samples_follow_the_softmax_of_the_logits() -> None:
    assert frequencies(SamplingParams(1)) == pytest.approx(softmax(LOGITS), abs=0.03)


def test_temperature_divides_the_logits() -> None:
    wanted = softmax(LOGITS / 2)
    assert frequencies(SamplingParams(1, temperature=2)) == pytest.approx(wanted, abs=0.03)


def test_a_tiny_temperature_takes_one_of_the_largest() -> None:
    assert set(sampled(SamplingParams(1, temperature=1e-6))) == {1, 4}


def test_top_k_one_is_greedy() -> None:
    assert set(sampled(SamplingParams(1, top_k=1), 200)) == {1}


def test_top_k_keeps_the_k_likeliest() -> None:
    assert set(sampled(SamplingParams(1, top_k=3, temperature=2))) == {1, 2, 4}


def test_top_k_beyond_the_vocabulary_keeps_all() -> None:
    limited = SamplingParams(1, top_k=99)
    assert sampled(limited, 300) == sampled(SamplingParams(1), 300)


def test_a_tiny_top_p_is_greedy() -> None:
    assert set(sampled(SamplingParams(1, top_p=1e-6), 200)) == {1}


def test_top_p_keeps_the_fewest_tokens_that_hold_it() -> None:
    # 1 and 4 hold 0.80 of the weight, 2 another 0.15
    assert set(sampled(SamplingParams(1, top_p=0.75))) == {1, 4}
    assert set(sampled(SamplingParams(1, top_p=0.9))) == {1, 2, 4}


def test_min_p_is_relative_to_the_likeliest() -> None:
    assert set(sampled(SamplingParams(1, min_p=0.3))) == {1, 2, 4}
    assert set(sampled(SamplingParams(1, min_p=0.4))) == {1, 4}


def test_a_seed_and_a_position_fix_the_token() -> None:
    seeded = SamplingParams(1, seed=5)
    assert sample(LOGITS, draw(seeded, 3)) == sample(LOGITS, draw(seeded, 3))
    assert sampled(seeded, 50) != sampled(SamplingParams(1, seed=6), 50)


def test_logit_bias_forces_and_forbids() -> None:
    forced = SamplingParams(1, temperature=0, logit_bias={3: 100.0})
    forbidden = SamplingParams(1, logit_bias={1: -100.0, 4: -100.0})
    assert sample(LOGITS, draw(forced)).token_id == 3
    assert set(sampled(forbidden)) <= {0, 2, 3}


def test_banned_tokens_are_never_drawn() -> None:
    banned = frozenset({1, 4})
    greedy = draw(SamplingParams(1, temperature=0), banned_token_ids=banned)
    assert sample(LOGITS, greedy).token_id == 2


def test_banning_every_token_is_a_fault() -> None:
    for temperature in (0.0, 1.0):
        everything = draw(
            SamplingParams(1, temperature=temperature), banned_token_ids=frozenset(range(5))
        )
        with pytest.raises(SamplingFault, match="every token is banned"):
            sample(LOGITS, everything)


def test_presence_and_frequency_penalties_count_the_answer_only() -> None:
    history = History(prompt_token_ids=frozenset({4}), generated_counts={1: 2})
    greedy = SamplingParams(1, temperature=0, presence_penalty=0.5, frequency_penalty=0.25)
    assert sample(LOGITS, draw(greedy, history=history)).token_id == 4


def test_repetition_penalty_counts_the_prompt_too_and_knows_signs() -> None:
    history = History(prompt_token_ids=frozenset({1, 3}), generated_counts={4: 1})
    greedy = SamplingParams(1, temperature=0, repetition_penalty=2.0)
    assert sample(LOGITS, draw(greedy, history=history)).token_id == 2  # 3/2, 3/2 < 2
    negative = np.array([-1.0, -1.5], np.float32)
    seen = History(prompt_token_ids=frozenset({0}), generated_counts={})
    assert sample(negative, draw(greedy, history=seen)).token_id == 1  # -2 < -1.5


def test_logits_are_left_as_they_were() -> None:
    before = LOGITS.copy()
    history = History(frozenset({0}), {1: 1})
    sampling = SamplingParams(1, logit_bias={2: 5.0}, repetition_penalty=1.5, logprobs=2)
    sample(LOGITS, draw(sampling, history=history, banned_token_ids=frozenset({0})))
    assert np.array_equal(LOGITS, before)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_a_fault(bad: float) -> None:
    with pytest.raises(SamplingFault, match="not finite"):
        sample(np.array([0.0, bad], np.float32), draw(SamplingParams(1)))


def test_logprobs_are_those_of_the_model_before_any_change() -> None:
    sampling = SamplingParams(1, temperature=0, logit_bias={3: 100.0}, logprobs=2)
    drawn = sample(LOGITS, draw(sampling))
    wanted = np.log(softmax(LOGITS))
    assert drawn.logprob is not None
    assert drawn.logprob.token_id == drawn.token_id == 3
    assert drawn.logprob.logprob == pytest.approx(wanted[3])
    assert [token for token, _ in drawn.logprob.top] == [1, 4]


def test_alternatives_come_best_first_and_equal_ones_by_id() -> None:
    top = token_logprob(LOGITS, 0, 4).top
    assert [token for token, _ in top] == [1, 4, 2, 0]
    assert [logprob for _, logprob in top] == sorted((p for _, p in top), reverse=True)


def test_zero_alternatives_report_the_token_alone() -> None:
    assert token_logprob(LOGITS, 2, 0).top == ()


def test_more_alternatives_than_tokens_report_every_token() -> None:
    assert len(token_logprob(LOGITS, 2, 20).top) == len(LOGITS)


def test_only_an_argmax_with_nothing_more_is_plain_greedy() -> None:
    assert is_plain_greedy(draw(SamplingParams(1, temperature=0)))
    assert not is_plain_greedy(draw(SamplingParams(1)))
    assert not is_plain_greedy(draw(SamplingParams(1, temperature=0, logprobs=0)))
    assert not is_plain_greedy(draw(SamplingParams(1, temperature=0, logit_bias={1: 1.0})))
