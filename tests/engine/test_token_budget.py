"""How a step's tokens are shared: nobody starves, nothing is wasted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.token_budget import share_budget

needs_lists = st.lists(st.integers(1, 40), max_size=12)
decoder_heavy_lists = st.lists(st.sampled_from([1, 1, 1, 2, 30]), min_size=1, max_size=12)
always = settings(derandomize=True, max_examples=300, deadline=None, database=None)


def test_nobody_gets_nothing() -> None:
    assert share_budget(8, []) == []


def test_who_needs_one_token_gets_it_before_any_prompt() -> None:
    assert share_budget(10, [100, 1, 1, 1]) == [7, 1, 1, 1]


def test_a_lone_prompt_gets_the_whole_budget() -> None:
    assert share_budget(10, [100]) == [10]


def test_no_one_gets_more_than_it_needs() -> None:
    assert share_budget(100, [3, 1, 5]) == [3, 1, 5]


def test_the_oldest_prompt_gets_half_and_the_shortest_come_next() -> None:
    assert share_budget(20, [100, 50, 4]) == [10, 6, 4]


def test_half_of_an_odd_rest_is_rounded_up_for_the_oldest() -> None:
    assert share_budget(7, [100, 100]) == [4, 3]


def test_what_the_others_leave_goes_to_the_oldest_again() -> None:
    assert share_budget(20, [100, 3]) == [17, 3]


def test_of_equally_short_prompts_the_older_comes_first() -> None:
    assert share_budget(16, [100, 6, 6]) == [8, 6, 2]


def test_a_token_is_held_back_for_the_oldest_prompt_where_decoders_fill_the_step() -> None:
    assert share_budget(3, [1, 1, 50, 1, 50]) == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("needs", [[1, 50], [50, 1], [1, 1], [50, 50]])
def test_a_budget_of_one_goes_to_the_oldest(needs: list[int]) -> None:
    assert share_budget(1, needs) == [1, 0]


def test_decoders_beyond_the_budget_wait_for_older_ones() -> None:
    assert share_budget(2, [1, 1, 1]) == [1, 1, 0]


@always
@given(st.integers(0, 60), needs_lists)
def test_the_whole_budget_is_used_where_there_is_need(budget: int, needs: list[int]) -> None:
    assert sum(share_budget(budget, needs)) == min(budget, sum(needs))


@always
@given(st.integers(0, 60), needs_lists)
def test_every_share_is_between_nothing_and_the_need(budget: int, needs: list[int]) -> None:
    shares = share_budget(budget, needs)
    assert len(shares) == len(needs)
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))


@always
@given(st.integers(1, 60), needs_lists.filter(lambda needs: max(needs, default=0) > 1))
def test_the_oldest_prompt_gets_at_least_half_of_what_decoders_leave(
    budget: int, needs: list[int]
) -> None:
    oldest = next(i for i, need in enumerate(needs) if need > 1)
    left = max(0, budget - needs.count(1))
    share = share_budget(budget, needs)[oldest]
    assert share == needs[oldest] or 2 * share >= left


@always
@given(st.integers(1, 20), decoder_heavy_lists)
def test_the_oldest_of_all_always_gets_a_token(budget: int, needs: list[int]) -> None:
    assert share_budget(budget, needs)[0] >= 1


@always
@given(st.integers(2, 20), decoder_heavy_lists)
def test_the_oldest_prompt_always_gets_a_token(budget: int, needs: list[int]) -> None:
    shares = [s for s, need in zip(share_budget(budget, needs), needs, strict=True) if need > 1]
    assert not shares or shares[0] >= 1


@always
@given(st.integers(1, 60), needs_lists)
def test_every_decoder_gets_its_token_where_the_budget_exceeds_their_number(
    budget: int, needs: list[int]
) -> None:
    shares = share_budget(budget, needs)
    if budget > needs.count(1):
        assert all(s for s, need in zip(shares, needs, strict=True) if need == 1)
