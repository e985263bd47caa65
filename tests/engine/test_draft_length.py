"""How many tokens to draft: the more they are accepted, the more; the more else there is, the fewer."""

from itertools import pairwise, product

import pytest

from engine.draft_length import FIRST_PAUSE, LONGEST_PAUSE, PROBE, DraftRecord, Load, draft_lengths
from engine.step_cost import BASES, SMALL_STEP, USUAL_BASE, StepCost


def record(chance: float) -> DraftRecord:
    """One whose drafts were accepted with this chance for a long time."""
    found = DraftRecord()
    found.tries, found.accepted = 1000.0, 1000.0 * chance
    return found


def length(chance: float, num_tokens: int = 1, limit: int = 8, base: float = 4) -> int:
    return draft_lengths(Load(num_tokens, 100, base), [record(chance)], [limit])[0]


def test_a_lone_sequence_gets_more_drafts_the_more_are_accepted() -> None:
    lengths = [length(chance) for chance in (0.1, 0.3, 0.5, 0.7, 0.9, 0.97)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (0, 8)


def test_the_more_there_is_to_compute_anyway_the_fewer_drafts() -> None:
    lengths = [length(0.8, num_tokens) for num_tokens in (1, 2, 4, 8, 16, 64, 512)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] >= 3
    assert lengths[-1] == 0


def test_the_more_a_step_costs_before_its_first_token_the_more_drafts() -> None:
    lengths = [length(0.8, base=base) for base in (0.5, 1, 2, 4, 8, 16)]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("limit", range(4))
def test_a_limit_is_kept(limit: int) -> None:
    assert length(0.97, limit=limit) == limit


def test_all_drafts_together_fit_what_is_left_of_the_step() -> None:
    for left in range(12):
        lengths = draft_lengths(Load(3, left, 4), [record(0.95) for _ in range(3)], [8] * 3)
        assert sum(lengths) <= left
        assert (sum(lengths) == left) == (left < 12)


def ratio(chances: list[float], lengths: tuple[int, ...], load: Load) -> float:
    """Useful tokens over cost, as the module's docstring has it."""
    useful = sum(
        chance**j
        for chance, number in zip(chances, lengths, strict=True)
        for j in range(1, number + 1)
    )
    return (load.num_tokens + useful) / (load.base + load.num_tokens + sum(lengths))


@pytest.mark.parametrize("base", [1.0, 4.0, 10.0])
@pytest.mark.parametrize("chances", [[0.9, 0.5], [0.3, 0.6], [0.95, 0.1]])
def test_no_other_choice_gives_more_useful_tokens_for_the_cost(
    base: float, chances: list[float]
) -> None:
    load = Load(2, 100, base)
    records = [record(chance) for chance in chances]
    real = [r.chance for r in records]
    chosen = ratio(real, tuple(draft_lengths(load, records, [6, 6])), load)
    best = max(ratio(real, lengths, load) for lengths in product(range(7), repeat=2))
    assert chosen == pytest.approx(best)


def test_a_sequence_whose_drafts_fail_is_probed_ever_more_seldom() -> None:
    failing = DraftRecord()
    asked = []
    for step in range(600):
        (number,) = draft_lengths(Load(1, 100, 4), [failing], [8])
        if number:
            asked.append(step)
            failing.note(number, 0)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == LONGEST_PAUSE
    assert len(asked) < 20


def test_a_probe_that_is_accepted_brings_drafts_back_at_once() -> None:
    returning = DraftRecord()
    for _ in range(20):
        returning.note(4, 0)
    for _ in range(LONGEST_PAUSE):
        (number,) = draft_lengths(Load(1, 100, 4), [returning], [8])
        if number:
            break
    assert number == PROBE
    returning.note(PROBE, PROBE)
    assert returning.pause == FIRST_PAUSE
    assert draft_lengths(Load(1, 100, 4), [returning], [8])[0] > 0


def test_a_probe_waits_until_something_is_drafted_for_it() -> None:
    """The proposer may find nothing: then it is asked again in the next step."""
    waiting = record(0.0)
    waiting.idle_steps = waiting.pause
    for _ in range(5):
        assert draft_lengths(Load(1, 100, 4), [waiting], [8]) == [PROBE]


# --- the cost of a step ---


def measured(base: float, sizes: list[int], slope: float = 0.005) -> StepCost:
    cost = StepCost()
    for size in sizes:
        cost.observe(size, slope * (base + size))
    return cost


@pytest.mark.parametrize("base", [2.5, 4.0, 9.0])
def test_the_base_is_found_from_steps_of_different_sizes(base: float) -> None:
    assert measured(base, [1, 4, 9, 2] * 20).base == pytest.approx(base)


def test_steps_of_one_size_tell_nothing_of_the_base() -> None:
    assert measured(9.0, [3] * 100).base == USUAL_BASE


def test_a_few_steps_tell_nothing_yet() -> None:
    assert measured(9.0, [1, 5] * 4).base == USUAL_BASE


def test_large_steps_are_left_out() -> None:
    assert measured(9.0, [SMALL_STEP + 1, 500] * 50).base == USUAL_BASE


@pytest.mark.parametrize(("base", "found"), [(0.0, BASES[0]), (500.0, BASES[1])])
def test_a_base_beyond_all_reason_is_cut(base: float, found: float) -> None:
    assert measured(base, [1, 9] * 50).base == found


def test_tokens_that_seem_to_cost_nothing_make_the_base_large() -> None:
    assert measured(9.0, [1, 9] * 50, slope=-0.001).base == BASES[1]
