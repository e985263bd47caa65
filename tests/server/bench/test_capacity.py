from dataclasses import replace

import pytest

from server.bench.capacity import Admission, Capacity, CapacityTrace, measure_capacity
from server.bench.span import Span

# Each context ends at 12 tokens, of which a dense cache reserves 20, or 32. One byte a token.
TRACE = CapacityTrace(
    num_requests=12,
    prompt_tokens=Span(8, 8),
    new_tokens=Span(4, 4),
    declared_tokens=12,
    max_model_len=32,
    page_size=4,
    bytes_per_token=1,
    tokens_per_step=256,
    seed=0,
)


def by_admission(trace: CapacityTrace, budget: int) -> dict[Admission, Capacity]:
    return {capacity.admission: capacity for capacity in measure_capacity(trace, [budget])}


def test_a_reservation_holds_as_many_requests_as_the_budget_divided_by_it() -> None:
    found = by_admission(TRACE, budget=64)
    assert found[Admission.LONGEST].most_running == 64 // 32
    assert found[Admission.DECLARED].most_running == 64 // 20


def test_four_steps_for_each_group_that_fits() -> None:
    """A prompt and its first token in one step, then three tokens."""
    found = by_admission(TRACE, budget=64)
    assert found[Admission.LONGEST].num_steps == 4 * 12 // 2
    assert found[Admission.DECLARED].num_steps == 4 * 12 // 3


def test_pages_hold_as_many_requests_as_the_budget_divided_by_their_pages() -> None:
    """Two pages each, and one that stays free at admission."""
    trace = replace(TRACE, num_requests=40, prompt_tokens=Span(7, 7), new_tokens=Span(1, 1))
    found = by_admission(trace, budget=4 * 81)
    assert found[Admission.PAGED].most_running == 40
    tight = by_admission(trace, budget=4 * 61)
    assert tight[Admission.PAGED].most_running == 60 // 2


def test_all_requests_finish_under_every_admission() -> None:
    for capacity in measure_capacity(TRACE, [32, 64, 200]):
        assert (capacity.num_finished, capacity.num_refused) == (12, 0)
        assert 0 < capacity.mean_running <= capacity.most_running


def test_pages_let_in_more_than_a_reservation_of_what_is_declared() -> None:
    found = by_admission(replace(TRACE, prompt_tokens=Span(2, 14), new_tokens=Span(1, 12)), 96)
    paged, declared, longest = (found[admission] for admission in Admission)
    assert paged.most_running > declared.most_running > longest.most_running
    assert paged.num_steps < declared.num_steps < longest.num_steps


def test_a_reservation_above_the_budget_is_refused() -> None:
    found = by_admission(TRACE, budget=20)
    assert found[Admission.LONGEST].num_refused == 12
    assert found[Admission.LONGEST].num_steps == 0
    assert found[Admission.DECLARED].num_finished == 12


@pytest.mark.parametrize("seed", [1, 2])
def test_a_trace_repeats_from_its_seed(seed: int) -> None:
    trace = replace(TRACE, prompt_tokens=Span(1, 20), seed=seed)
    assert measure_capacity(trace, [64]) == measure_capacity(trace, [64])
