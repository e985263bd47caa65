"""What a load sends follows from its seed alone."""

from dataclasses import replace
from itertools import pairwise

import pytest

from server.bench.load import Load, TokenGauge, arrival_times, gauge_of, plan_requests
from server.bench.span import Span
from server.bench.words import WORDS

LOAD = Load(20, Span(30, 60), Span(4, 8), seed=3)


def words(load: Load) -> list[list[str]]:
    return [request.prompt.split() for request in plan_requests(load)]


def test_lengths_stay_within_their_spans_and_differ() -> None:
    load = replace(LOAD, num_requests=100)
    lengths = [len(prompt) for prompt in words(load)]
    assert 30 <= min(lengths) < max(lengths) <= 60
    assert {request.max_tokens for request in plan_requests(load)} == {4, 5, 6, 7, 8}


def test_the_seed_decides_and_the_number_of_requests_does_not() -> None:
    assert plan_requests(LOAD) == plan_requests(LOAD)
    assert plan_requests(replace(LOAD, num_requests=5)) == plan_requests(LOAD)[:5]
    assert not set(plan_requests(replace(LOAD, seed=4))) & set(plan_requests(LOAD))


def test_without_a_shared_prefix_prompts_part_within_a_few_words() -> None:
    assert len({tuple(prompt[:4]) for prompt in words(LOAD)}) == 20


@pytest.mark.parametrize(("share", "shared"), [(0.5, 20), (0.9, 36), (1, 40)])
def test_a_shared_prefix_is_this_share_of_each_prompt(share: float, shared: int) -> None:
    prompts = words(replace(LOAD, prompt=Span(40, 40), shared_prefix=share))
    assert len({tuple(prompt[:shared]) for prompt in prompts}) == 1
    assert len({tuple(prompt[: shared + 4]) for prompt in prompts}) == (1 if share == 1 else 20)


def test_prompts_of_different_lengths_share_their_beginnings() -> None:
    prompts = sorted(words(replace(LOAD, shared_prefix=0.5)), key=len)
    shortest = prompts[0][: len(prompts[0]) // 2]
    assert all(prompt[: len(shortest)] == shortest for prompt in prompts)


def test_the_words_are_many_and_plain() -> None:
    assert len(set(WORDS)) == len(WORDS) > 250
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


def test_a_gauge_turns_tokens_into_words() -> None:
    gauge = gauge_of(few_words=40, few_tokens=70, many_words=160, many_tokens=250)
    assert gauge == TokenGauge(per_word=1.5, overhead=10)
    assert gauge.words_for(310) == 200
    assert gauge.words_for(1) == 1
    assert [len(p) for p in words(replace(LOAD, prompt=Span(310, 310), gauge=gauge))] == [200] * 20


@pytest.mark.parametrize(("few", "many"), [(0, 0), (90, 80), (1, 2)])
def test_counts_that_hardly_grow_are_no_gauge(few: int, many: int) -> None:
    assert gauge_of(40, few, 160, many) == TokenGauge()


def test_arrivals_are_a_poisson_process_that_repeats() -> None:
    times = arrival_times(4.0, 4000, seed=1)
    assert times == arrival_times(4.0, 4000, seed=1) != arrival_times(4.0, 4000, seed=2)
    assert times[0] == 0
    assert list(times) == sorted(times)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(0.25, rel=0.1)
    assert variance == pytest.approx(mean**2, rel=0.2)  # so it is for exponential gaps
    assert arrival_times(4.0, 1, seed=1) == (0.0,)
