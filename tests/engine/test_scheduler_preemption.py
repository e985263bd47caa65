"""Where pages run out: who gives way, and that nobody notices but by waiting."""

import pytest

from engine.token_event import TokenLogprob
from tests.support.stepper import Stepper, make_request, request_ids, text

B = 4  # page size


# --- preemption ---


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_six_requests_end_in_a_pool_for_two_with_their_solo_texts(prefix_cache: bool) -> None:
    """Case C07; the stepper compares each text with its solo run and guards the oldest."""
    stepper = Stepper(num_pages=12, page_size=B, max_num_seqs=8, prefix_cache=prefix_cache)
    for i in range(4):
        stepper.add(make_request(str(i), text(8, i), 12))
    stepper.add(make_request("two", text(8, 4), 12, n=2))
    stepper.add(make_request("penalty", text(8, 5), 12, presence_penalty=1.0))
    stepper.run()
    assert len(stepper.ends) == 7
    assert stepper.scheduler.counters.preemptions > 0
    assert stepper.scheduler.counters.generated_tokens == 7 * 12
    assert stepper.pool.num_used == 0


def test_a_penalty_remembers_what_was_generated_before_a_preemption() -> None:
    """Case C07."""
    stepper = Stepper(num_pages=6, page_size=2)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.step()
    stepper.add(make_request("b", text(3, 2), 8, frequency_penalty=0.5))
    counts = []
    while batch := stepper.step():
        counts += [
            sum(draw.history.generated_counts.values())
            for row in batch.rows
            for draw in row.draws
            if draw.history
        ]
    assert stepper.scheduler.counters.preemptions > 0
    assert counts == list(range(8))


def test_a_request_that_needs_the_whole_pool_does_not_preempt_itself() -> None:
    """Case C07."""
    stepper = Stepper(num_pages=3, page_size=B)
    stepper.add(make_request("a", text(3), 9))
    stepper.run()
    assert stepper.scheduler.counters.preemptions == 0


def test_the_youngest_gives_its_pages_back_first() -> None:
    stepper = Stepper(num_pages=9, page_size=2, max_num_seqs=3)
    for i in range(3):
        stepper.add(make_request(str(i), text(3, i), 9))
        stepper.step()
    while not stepper.scheduler.counters.preemptions:
        assert stepper.step()
    assert [s.request.request_id for s in stepper.scheduler.waiting] == ["2"]


def test_a_sequence_without_a_share_of_the_step_preempts_nobody() -> None:
    """Of three prompts the second gets no token, and the third, younger, holds pages."""
    stepper = Stepper(num_pages=100, page_size=B, budget=4)
    for name, length in (("a", 100), ("b", 50), ("c", 20)):
        stepper.add(make_request(name, text(length, length), 2))
    for _ in range(5):
        assert request_ids(stepper.step()) == ["a", "c"]
    stepper.run()
    assert stepper.scheduler.counters.preemptions == 0


def test_a_prompt_that_is_preempted_half_scored_is_scored_anew() -> None:
    """The stepper compares the scores with the solo run."""
    stepper = Stepper(num_pages=8, page_size=2, budget=2)
    stepper.add(make_request("a", text(3, 1), 12))
    stepper.step()
    stepper.step()
    stepper.add(make_request("b", text(9, 2), 2, prompt_logprobs=0))
    (num_scores,) = {len(scores) for scores in scores_at_preemption(stepper)}
    assert 1 < num_scores < 9
    stepper.run()
    assert len(stepper.ends) == 2


def scores_at_preemption(stepper: Stepper) -> list[list[TokenLogprob | None]]:
    """The scores that the sequence preempted first had, step until then."""
    while True:
        before = {s: list(s.prompt_logprobs) for s in stepper.scheduler.running}
        assert stepper.step()
        if stepper.scheduler.counters.preemptions:
            return [before[s] for s in stepper.scheduler.waiting if s in before]


def test_every_preemption_is_counted() -> None:
    stepper = Stepper(num_pages=12, page_size=B)
    for i in range(6):
        stepper.add(make_request(str(i), text(8, i), 12))
    sequences = {*stepper.scheduler.waiting}
    stepper.run()
    preemptions = sum(sequence.num_preemptions for sequence in sequences)
    assert stepper.scheduler.counters.preemptions == preemptions > 1


def test_a_preempted_sequence_holds_no_page() -> None:
    stepper = Stepper(num_pages=6, page_size=2)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.add(make_request("b", text(3, 2), 8))
    while not stepper.scheduler.counters.preemptions:
        assert stepper.step()
    (preempted,) = stepper.scheduler.waiting
    assert preempted.num_computed_tokens == 0
    assert not preempted.table.page_ids


def test_a_preempted_sequence_computes_its_generated_tokens_again() -> None:
    stepper = Stepper(num_pages=6, page_size=2, prefix_cache=False)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.add(make_request("b", text(3, 2), 8))
    batches = stepper.run()
    assert stepper.scheduler.counters.preemptions == 1
    resumed = next(batch.rows[0] for batch in batches if request_ids(batch) == ["b"])
    generated = tuple(stepper.tokens["b", 0])
    assert resumed.token_ids == (*text(3, 2), *generated)[: len(resumed.token_ids)]
    assert len(resumed.token_ids) > 3


def test_a_preempted_sequence_finds_its_own_pages_in_the_cache() -> None:
    computed = []
    for prefix_cache in (False, True):
        stepper = Stepper(num_pages=6, page_size=2, prefix_cache=prefix_cache)
        stepper.add(make_request("a", text(3, 1), 6))
        stepper.add(make_request("b", text(5, 2), 6))
        stepper.run()
        assert stepper.scheduler.counters.preemptions >= 1
        computed.append(stepper.model.num_computed_tokens)
    assert computed[1] < computed[0]


def test_cached_tokens_are_those_of_the_first_reading_not_of_a_preemption() -> None:
    stepper = Stepper(num_pages=6, page_size=2)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.add(make_request("b", text(5, 2), 6))
    stepper.run()
    assert stepper.scheduler.counters.preemptions >= 1
    assert stepper.cached_tokens["b", 0] == 0
    assert stepper.scheduler.counters.prefix_hit_tokens == 0
    assert stepper.scheduler.counters.prefix_query_tokens == 8


def test_tokens_are_counted_once_whatever_is_computed_twice() -> None:
    stepper = Stepper(num_pages=6, page_size=2, prefix_cache=False)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.add(make_request("b", text(3, 2), 8))
    stepper.run()
    assert stepper.scheduler.counters.preemptions > 0
    assert stepper.scheduler.counters.prompt_tokens == 6
    assert stepper.scheduler.counters.generated_tokens == 16
