"""Rows of drafts in the scheduler: whatever is drafted, each text is its solo text.

The stepper holds every token against the solo run, and the laws of pages after every operation.
"""

import random
from collections import Counter

import pytest

from engine.config import SpeculationConfig
from engine.engine_stats import EngineLimits
from engine.page_pool import PagePool
from engine.proposer import Draft
from engine.request import Request
from engine.speculation import LONGEST_SILENCE, Speculation
from engine.token_event import FinishReason
from tests.support.scheduler_oracle import SchedulerOracle, Setting
from tests.support.scripted_drafts import always, at_random
from tests.support.stepper import EOS, Stepper, make_request, request_ids, row_lengths, text

B = 4  # page size


def drafting(num_tokens: int, num_right: int, **more: object) -> Stepper:
    stepper = Stepper(**more)  # type: ignore[arg-type]
    stepper.drafter = always(num_tokens, num_right)
    return stepper


# --- what is accepted and what is rewound ---


def test_drafts_that_are_all_right_bring_several_tokens_a_step() -> None:
    stepper = drafting(4, 4)
    stepper.add(make_request("a", text(6), 11))
    assert [row_lengths(batch) for batch in stepper.run()] == [[6], [5], [5]]
    assert len(stepper.tokens["a", 0]) == 11


def test_drafts_that_are_all_wrong_bring_one_token_a_step() -> None:
    stepper = drafting(3, 0)
    stepper.add(make_request("a", text(6), 4))
    assert [row_lengths(batch) for batch in stepper.run()] == [[6], [3], [2], [1]]


@pytest.mark.parametrize("page_size", [1, 2, 3, 5])
@pytest.mark.parametrize("num_right", range(6))
def test_a_run_may_end_anywhere_in_a_page(page_size: int, num_right: int) -> None:
    for length in range(1, 7):
        stepper = drafting(5, num_right, page_size=page_size)
        stepper.add(make_request("a", text(length), 20))
        stepper.run()
        stats = stepper.scheduler.speculation.counters.stats()
        assert stats.accepted_tokens == sum(stats.accepted_at)
        assert (stats.accepted_tokens > 0) == (num_right > 0)


def test_every_draft_is_accepted_or_rewound_and_counted_by_its_place() -> None:
    stepper = drafting(3, 2)
    stepper.add(make_request("a", text(6), 7))
    stepper.run()
    stats = stepper.scheduler.speculation.counters.stats()
    assert stats.drafted_at == (2, 2, 1)
    assert stats.accepted_at == (2, 2, 0)
    assert (stats.drafted_tokens, stats.accepted_tokens, stats.rewound_tokens) == (5, 4, 1)


def test_pages_that_only_wrong_drafts_needed_are_given_back() -> None:
    stepper = drafting(2 * B, 0)
    stepper.add(make_request("a", text(B), 3 * B))
    stepper.step()
    stepper.step()
    assert stepper.pool.num_used == 2
    assert stepper.scheduler.speculation.counters.stats().rewound_pages == 2


# --- ends inside a run ---


@pytest.mark.parametrize("max_tokens", range(2, 9))
def test_max_tokens_inside_a_run_is_kept(max_tokens: int) -> None:
    stepper = drafting(6, 6)
    stepper.add(make_request("a", text(5), max_tokens))
    stepper.run()
    assert len(stepper.tokens["a", 0]) == max_tokens
    assert stepper.ends["a", 0] is FinishReason.LENGTH


def test_the_context_limit_inside_a_run_is_kept() -> None:
    stepper = drafting(6, 6, max_model_len=10)
    stepper.add(make_request("a", text(5), 99))
    assert [row_lengths(batch) for batch in stepper.run()] == [[5], [4]]
    assert len(stepper.tokens["a", 0]) == 5


def test_an_end_inside_a_run_ends_the_text_there() -> None:
    """Drafts after it were right for a text that goes on, and are no part of this one."""
    whole = Stepper()
    whole.add(make_request("a", text(5), 8))
    whole.run()
    for place, token in enumerate(whole.tokens["a", 0][1:6], start=2):
        stepper = drafting(0, 0)
        tail = whole.tokens["a", 0]

        def right(stepper: Stepper, tail: list[int] = tail) -> list[Draft]:
            running = [s for s in stepper.scheduler.running if s.may_be_drafted]
            return [
                Draft(s.sequence_id, len(s.token_ids), tuple(tail[s.num_generated_tokens :]))
                for s in running
            ]

        stepper.drafter = right
        stepper.add(make_request("a", text(5), 8, stop_token_ids=frozenset({token})))
        stepper.run()
        assert len(stepper.tokens["a", 0]) <= place
        assert stepper.ends["a", 0] is FinishReason.STOP


def test_an_end_before_min_tokens_is_banned_in_every_draw_of_a_run() -> None:
    for seed in range(40):
        stepper = drafting(5, 5)
        request = make_request(
            "a",
            text(5, seed),
            9,
            ignore_eos=False,
            min_tokens=6,
            stop_token_ids=frozenset(range(30)),
        )
        stepper.add(request)
        stepper.run()
        assert len(stepper.tokens["a", 0]) >= 6
        assert not EOS & {*stepper.tokens["a", 0][:6]}


def test_penalties_see_the_drafts_before_each_draw() -> None:
    stepper = drafting(4, 3)
    stepper.add(make_request("a", text(5), 12, presence_penalty=0.5, frequency_penalty=0.5))
    batches = stepper.run()
    last = [draw.history for draw in batches[1].rows[0].draws]
    assert [sum(h.generated_counts.values()) for h in last if h] == [1, 2, 3, 4, 5]


def test_a_draw_that_fails_inside_a_run_ends_that_sequence_alone() -> None:
    stepper = drafting(3, 3)
    stepper.add(make_request("a", text(5), 9))
    stepper.add(make_request("b", text(5, 1), 9))
    stepper.step()
    stepper.model.failing = {("a", 0)}
    stepper.step()
    stepper.model.failing = set()
    stepper.run()
    assert stepper.ends == {("a", 0): FinishReason.ERROR, ("b", 0): FinishReason.LENGTH}


# --- beside everybody else ---


def test_drafts_of_forks_leave_shared_pages_alone() -> None:
    stepper = drafting(5, 3)
    stepper.add(make_request("a", text(2 * B + 1), 12, n=4))
    stepper.run()
    assert len({tuple(tokens) for tokens in stepper.tokens.values()}) == 4
    assert stepper.scheduler.counters.page_copies == 4


def test_a_prompt_that_begins_like_an_accepted_text_finds_its_pages() -> None:
    stepper = drafting(5, 4)
    stepper.add(make_request("a", text(6), 14))
    stepper.run()
    stepper.add(make_request("b", [*text(6), *stepper.tokens["a", 0]], 9))
    stepper.run()
    assert stepper.cached_tokens["b", 0] == 16


def test_drafts_take_only_what_the_budget_has_left() -> None:
    stepper = drafting(5, 5, budget=8)
    stepper.add(make_request("a", text(4), 30))
    stepper.step()
    stepper.add(make_request("b", text(20, 1), 2))
    assert row_lengths(stepper.step()) == [1, 7]
    stepper.add(make_request("c", text(2, 2), 2))
    stepper.run()


def test_drafts_fill_a_pool_to_its_last_slot_and_no_further() -> None:
    stepper = drafting(7, 7, num_pages=4)
    stepper.add(make_request("a", text(3), 99))
    batches = stepper.run()
    assert max(slot for batch in batches for row in batch.rows for slot in row.slots) == 4 * B - 2
    assert len(stepper.tokens["a", 0]) == 4 * B - 3


def test_where_no_page_is_free_nothing_is_drafted_into_one_and_nobody_is_preempted() -> None:
    stepper = drafting(6, 6, num_pages=4)
    stepper.add(make_request("a", text(B - 1), 9))
    stepper.add(make_request("b", text(B - 1, 1), 9))
    for _ in range(2):
        stepper.step()
    assert stepper.pool.num_free == 0
    assert not stepper.scheduler.counters.preemptions
    stepper.run()


def test_whoever_is_preempted_goes_on_with_drafts() -> None:
    stepper = drafting(3, 2, num_pages=8, prefix_cache=False)
    for name in "abc":
        stepper.add(make_request(name, text(B, ord(name)), 20))
    stepper.run()
    assert stepper.scheduler.counters.preemptions > 0


# --- what happens while a step runs ---


def test_an_abort_while_drafts_are_computed_gives_every_page_back() -> None:
    stepper = drafting(6, 6)
    stepper.add(make_request("a", text(5), 30))
    stepper.step()
    batch = stepper.plan()
    assert batch
    stepper.abort("a")
    assert stepper.finish(batch) == []
    assert stepper.pool.num_used == 0


def test_a_step_of_drafts_that_is_rolled_back_leaves_no_trace() -> None:
    stepper = drafting(2 * B, 4)
    stepper.add(make_request("a", text(B + 1), 20, n=2))
    stepper.step()
    before = stepper.pool.num_used, stepper.pool.num_free
    assert stepper.plan()
    assert stepper.pool.num_used > before[0]
    stepper.scheduler.rollback()
    assert (stepper.pool.num_used, stepper.pool.num_free) == before
    stepper.run()


def test_stale_and_impossible_drafts_are_dropped() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(5), 30))
    stepper.step()
    (sequence,) = stepper.scheduler.running
    known = len(sequence.token_ids)
    for draft, taken in (
        (Draft(sequence.sequence_id, known - 1, (1, 2)), 0),
        (Draft(sequence.sequence_id, known + 1, (1, 2)), 0),
        (Draft(sequence.sequence_id, known, (1, 60, 2)), 1),
        (Draft(sequence.sequence_id, known, (-1,)), 0),
    ):
        batch = stepper.scheduler.schedule([draft])
        assert row_lengths(batch) == [1 + taken]
        stepper.scheduler.rollback()


def test_a_request_that_wants_no_drafts_gets_none() -> None:
    stepper = drafting(3, 3)
    stepper.add(make_request("a", text(5), 4, speculative=False))
    assert [row_lengths(batch) for batch in stepper.run()] == [[5], [1], [1], [1]]


# --- asking ---


def asking(stepper: Stepper, max_draft_tokens: int = 4) -> Speculation:
    return Speculation(SpeculationConfig(max_draft_tokens), stepper.limits)


def test_only_sequences_at_decode_are_asked_for() -> None:
    stepper = Stepper(budget=8)
    stepper.add(make_request("a", text(4), 9))
    stepper.step()
    stepper.add(make_request("b", text(20, 1), 9))
    speculation = asking(stepper)
    (ask,) = speculation.asks(stepper.scheduler.running, 64, stepper.pool)
    assert list(ask.token_ids[:4]) == text(4)
    assert request_ids(stepper.step()) == ["a", "b"]
    asks = speculation.asks(stepper.scheduler.running, 10_000, stepper.pool)
    assert {ask.sequence_id.arrival for ask in asks} <= {0}


def test_nobody_is_asked_for_in_a_step_that_is_full() -> None:
    stepper = Stepper()
    for name in "ab":
        stepper.add(make_request(name, text(4, ord(name)), 9))
    stepper.step()
    assert len(asking(stepper).asks(stepper.scheduler.running, 64, stepper.pool)) == 2
    assert asking(stepper).asks(stepper.scheduler.running, 2, stepper.pool) == ()


def test_no_more_is_asked_for_than_the_text_has_room() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(4), 2))
    stepper.step()
    (sequence,) = stepper.scheduler.running
    sequence.draft_record.note(8, 8)
    assert asking(stepper).asks([sequence], 64, stepper.pool) == ()


def test_a_proposer_that_fails_again_and_again_is_asked_ever_more_seldom() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(4), 9))
    stepper.step()
    speculation = asking(stepper)
    rounds = 0
    for _ in range(5 * LONGEST_SILENCE):
        if speculation.asks(stepper.scheduler.running, 64, stepper.pool):
            rounds += 1
            speculation.proposer_failed()
    assert rounds <= 16
    assert speculation.counters.stats().proposer_failures == rounds


def test_limits_are_told_to_a_speculation_without_configuration() -> None:
    assert Speculation(None, EngineLimits(8, 8, 8)).asks([], 8, PagePool(1, 1)) == ()


# --- random traffic ---


def random_setting(dice: random.Random) -> Setting:
    page_size = dice.randint(1, 5)
    return Setting(
        num_pages=dice.randint(20 // page_size, 40 // page_size),
        page_size=page_size,
        max_num_seqs=dice.randint(4, 8),
        budget=dice.choice((5, 9, 30)),
        prefix_cache=dice.random() < 0.6,
    )


def random_request(dice: random.Random, name: str) -> Request:
    return make_request(
        name,
        [7] * dice.randint(0, 8) + text(dice.randint(1, 4), dice.randrange(3)),
        dice.randint(0, 12),
        n=dice.choice((1, 1, 2, 4)),
        ignore_eos=dice.random() < 0.5,
        presence_penalty=dice.choice((0.0, 0.5)),
    )


def operate(oracle: SchedulerOracle, dice: random.Random, name: str) -> None:
    if oracle.open_step is None:
        if dice.random() < 0.3:
            oracle.add(random_request(dice, name))
        oracle.plan()
    elif dice.random() < 0.1:
        oracle.rollback(is_written=dice.random() < 0.5)
    else:
        if dice.random() < 0.2:
            oracle.abort(dice.randrange(20), is_whole=dice.random() < 0.5)
        oracle.finish(dice.randrange(20) if dice.random() < 0.05 else None)


def test_random_acceptance_leaves_every_text_as_it_is_alone() -> None:
    tally: Counter[str] = Counter()
    for seed in range(60):
        dice = random.Random(seed)
        oracle = SchedulerOracle(random_setting(dice), tally)
        oracle.stepper.drafter = at_random(dice)
        for number in range(80):
            operate(oracle, dice, str(number))
            oracle.check()
        oracle.drain()
        stats = oracle.stepper.scheduler.speculation.counters.stats()
        tally["accepted"] += stats.accepted_tokens
        tally["rewound"] += stats.rewound_tokens
        tally["rewound pages"] += stats.rewound_pages
    edges = ("accepted", "rewound", "rewound pages", "aborts while a step runs", "rollbacks")
    assert min(tally[edge] for edge in (*edges, "preemptions", "page copies")) >= 50, tally
