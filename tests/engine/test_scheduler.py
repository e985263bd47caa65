"""The scheduler, stepped by hand with a fake model that notices every wrong page."""

import random

import pytest

from engine.config import EngineConfig
from engine.engine_stats import EngineLimits
from engine.errors import InvalidRequest, Overloaded, PromptTooLong
from engine.page_pool import PagePool
from engine.request import Request
from engine.scheduler import Scheduler
from engine.step_batch import StepBatch
from engine.token_event import FinishReason
from tests.support.pools import see
from tests.support.stepper import VOCAB_SIZE, Stepper, make_request
from tests.support.trace import TraceShape, make_trace

B = 4  # page size
FOREVER = 5000


def text(length: int, seed: int = 0) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(VOCAB_SIZE) for _ in range(length)]


def request_ids(batch: StepBatch | None) -> list[str]:
    assert batch
    return [row.request_id for row in batch.rows]


def row_lengths(batch: StepBatch | None) -> list[int]:
    assert batch
    return [len(row.token_ids) for row in batch.rows]


def steps_until_first_token(stepper: Stepper, request: Request) -> int:
    stepper.add(request)
    steps = 0
    while not stepper.tokens[request.request_id, 0]:
        assert stepper.step()
        steps += 1
    return steps


# --- one request ---


def test_an_idle_scheduler_plans_nothing():
    stepper = Stepper()
    assert stepper.step() is None
    assert not stepper.scheduler.has_work


def test_a_request_gets_its_solo_text_and_gives_every_page_back():
    stepper = Stepper(prefix_cache=False)
    stepper.add(make_request("a", text(10), 7))
    stepper.run()
    assert stepper.ends == {("a", 0): FinishReason.LENGTH}
    assert repr(stepper.pool) == "PagePool(free=64, used=0, cached=0)"


def test_the_full_pages_of_a_finished_text_stay_cached():
    stepper = Stepper()
    stepper.add(make_request("a", text(10), 7))  # 16 of its 17 tokens were computed
    stepper.run()
    assert repr(stepper.pool) == "PagePool(free=60, used=0, cached=4)"


def test_a_prompt_is_read_in_chunks_of_the_budget():
    stepper = Stepper(budget=6)
    stepper.add(make_request("a", text(15), 2))
    assert [row_lengths(batch) for batch in stepper.run()] == [[6], [6], [3], [1]]


def test_only_the_row_that_reaches_the_end_of_the_text_draws():
    stepper = Stepper(budget=6)
    stepper.add(make_request("a", text(15), 1))
    assert [len(batch.rows[0].draws) for batch in stepper.run()] == [0, 0, 1]


def test_the_plan_names_positions_pages_and_slots():
    stepper = Stepper(budget=6)
    stepper.add(make_request("a", text(9), 1))
    stepper.step()
    batch = stepper.plan()
    assert batch
    (row,) = batch.rows
    assert (row.start, row.token_ids, row.context_len) == (6, tuple(text(9)[6:]), 9)
    assert row.page_ids == (0, 1, 2)
    assert row.slots == (6, 7, 8)
    assert batch.num_pages == 3


def test_a_request_is_named_as_started_in_its_first_step_only():
    stepper = Stepper(budget=6)
    stepper.add(make_request("a", text(9), 2))
    assert [batch.started for batch in stepper.run()] == [("a",), (), ()]


def test_the_end_of_the_context_ends_the_text():
    stepper = Stepper(max_model_len=12)
    stepper.add(make_request("a", text(9), 100))
    stepper.run()
    assert len(stepper.tokens["a", 0]) == 3
    assert stepper.ends["a", 0] is FinishReason.LENGTH


def test_a_text_may_fill_the_whole_pool():
    stepper = Stepper(num_pages=3, page_size=B)
    stepper.add(make_request("a", text(5), 100))
    stepper.run()
    assert len(stepper.tokens["a", 0]) == 3 * B - 5


def test_an_eos_token_ends_the_text_unless_it_is_ignored():
    stepper = Stepper(num_pages=512, max_num_seqs=64)
    for seed in range(40):
        stepper.add(make_request(str(seed), text(3, seed), 40, ignore_eos=False))
    stepper.run()
    stopped = [key for key, reason in stepper.ends.items() if reason is FinishReason.STOP]
    assert stopped
    assert all(stepper.tokens[key][-1] == 59 for key in stopped)


def test_no_end_comes_before_min_tokens():
    stepper = Stepper(num_pages=512, max_num_seqs=64)
    for seed in range(40):
        request = make_request(str(seed), text(3, seed), 90, ignore_eos=False, min_tokens=30)
        stepper.add(request)
    stepper.run()
    assert min(len(tokens) for tokens in stepper.tokens.values()) >= 30
    assert FinishReason.STOP in stepper.ends.values()


def test_a_stop_token_ends_the_text():
    stepper = Stepper()
    free = make_request("free", text(5), 10)
    stepper.add(free)
    stepper.run()
    stop = stepper.tokens["free", 0][4]
    stepper.add(make_request("a", text(5), 10, stop_token_ids=frozenset({stop})))
    stepper.run()
    assert stepper.ends["a", 0] is FinishReason.STOP
    assert stepper.tokens["a", 0][-1] == stop


def test_a_prompt_can_be_scored_without_an_answer():
    stepper = Stepper(budget=5)
    stepper.add(make_request("a", text(13), 0, prompt_logprobs=2))
    stepper.run()
    assert stepper.ends == {("a", 0): FinishReason.LENGTH}
    assert stepper.tokens["a", 0] == []


@pytest.mark.parametrize("length", [1, B - 1, B, B + 1, 3 * B + 2])
def test_a_scored_prompt_is_scored_in_full_though_its_pages_are_cached(length):
    """Case D02; the stepper compares every score with the solo run."""
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(length), 1, prompt_logprobs=0))
        stepper.run()
    assert stepper.cached_tokens["b", 0] == 0


def test_a_scored_prompt_of_several_answers_is_reported_with_each():
    stepper = Stepper()
    stepper.add(make_request("a", text(6), 2, n=3, prompt_logprobs=0))
    stepper.run()
    assert len(stepper.ends) == 3


# --- refusals ---


def test_limits_that_the_pool_cannot_hold_are_refused():
    limits = EngineLimits(max_model_len=9, max_num_seqs=1, vocab_size=10)
    with pytest.raises(ValueError, match="2 pages cannot hold 9 tokens"):
        Scheduler(EngineConfig(0), limits, frozenset(), PagePool(2, B))


def test_a_request_that_can_never_fit_is_refused_at_once_and_the_small_go_on():
    """Case C06."""
    stepper = Stepper(num_pages=5, page_size=B)
    with pytest.raises(PromptTooLong, match=r"has 21 tokens.* 20$"):
        stepper.add(make_request("huge", text(21), 1))
    stepper.add(make_request("cut", text(15), 50))
    for i in range(5):
        stepper.add(make_request(f"small{i}", text(3, i), 3))
    stepper.run()
    assert len(stepper.tokens["cut", 0]) == 5
    assert len(stepper.ends) == 6


def test_a_refused_request_changes_nothing():
    stepper = Stepper()
    before = see(stepper.pool)
    with pytest.raises(InvalidRequest):
        stepper.add(make_request("a", [], 1))
    assert not stepper.scheduler.has_work
    assert see(stepper.pool) == before


def test_a_full_queue_refuses_until_someone_starts():
    stepper = Stepper(max_queue=2)
    stepper.add(make_request("a", text(3)))
    stepper.add(make_request("b", text(3)))
    with pytest.raises(Overloaded, match="2 requests wait already"):
        stepper.add(make_request("c", text(3)))
    stepper.step()
    stepper.add(make_request("c", text(3)))
    stepper.run()
    assert set(stepper.ends) == {("a", 0), ("b", 0), ("c", 0)}


def test_a_preempted_sequence_takes_no_place_in_the_queue():
    stepper = Stepper(num_pages=6, page_size=2, max_queue=1)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.step()
    stepper.add(make_request("b", text(3, 2), 8))
    while not stepper.scheduler.counters.preemptions:
        assert stepper.step()
    assert [s.request.request_id for s in stepper.scheduler.waiting] == ["b"]
    stepper.add(make_request("c", text(3, 3), 2))
    stepper.run()
    assert len(stepper.ends) == 3


# --- admission ---


def test_a_newcomer_gets_its_first_token_in_one_step_beside_decoders():
    """Case C05."""
    stepper = Stepper(num_pages=2000, max_num_seqs=4, budget=16)
    for i in range(3):
        stepper.add(make_request(f"old{i}", text(9, i), FOREVER))
        stepper.step()
    assert steps_until_first_token(stepper, make_request("new", text(9, 9), 2)) == 1


def test_four_cold_prompts_at_once_all_run():
    """Case C05."""
    stepper = Stepper(max_num_seqs=4, budget=16)
    for i in range(4):
        stepper.add(make_request(str(i), text(12, i), 20))
    stepper.step()
    assert len(tuple(stepper.scheduler.running)) == 4


def test_no_one_waits_for_an_end_while_a_slot_and_pages_are_free():
    """Case C05."""
    stepper = Stepper(num_pages=64, max_num_seqs=3)
    for i in range(3):
        stepper.add(make_request(f"first{i}", text(5, i), 4 + i))
    for i in range(6):
        stepper.add(make_request(f"more{i}", text(5, 10 + i), 5))
    stepper.step()
    while stepper.scheduler.waiting:
        assert len(request_ids(stepper.step())) == 3


def test_an_old_medium_request_is_not_overtaken_by_a_stream_of_short_ones():
    """Case C05: its age is bounded by its own length, whatever comes after it."""
    stepper = Stepper(num_pages=400, max_num_seqs=4, budget=8)
    stepper.add(make_request("medium", text(80), 4))
    steps = 0
    while ("medium", 0) not in stepper.ends:
        stepper.add(make_request(f"short{steps}", text(3, steps), 2))
        assert stepper.step()
        steps += 1
    assert steps <= 80 // (8 // 2 - 1) + 4


def test_the_waiting_are_admitted_in_the_order_of_arrival():
    stepper = Stepper(max_num_seqs=1)
    for i in range(5):
        stepper.add(make_request(str(i), text(5 - i, i), 2))
    started = [name for batch in stepper.run() for name in batch.started]
    assert started == ["0", "1", "2", "3", "4"]


def test_a_request_of_many_answers_waits_for_as_many_slots():
    stepper = Stepper(max_num_seqs=4)
    stepper.add(make_request("a", text(5, 1), 6))
    stepper.add(make_request("four", text(5, 2), 2, n=4))
    stepper.add(make_request("b", text(5, 3), 2))
    stepper.step()
    assert len(tuple(stepper.scheduler.running)) == 1
    stepper.run()
    assert len(stepper.ends) == 6


def test_admission_leaves_the_running_the_pages_their_texts_will_need():
    stepper = Stepper(num_pages=8, page_size=B, budget=8)
    stepper.add(make_request("long", text(22), 6))
    stepper.step()
    stepper.add(make_request("other", text(9, 1), 2))
    stepper.step()
    assert [s.request.request_id for s in stepper.scheduler.running] == ["long"]
    stepper.run()
    assert stepper.scheduler.counters.preemptions == 0


def test_admission_counts_a_cached_page_it_would_use_again_as_taken():
    """Seven pages: three used, four cached. The newcomer wants those four, and a fifth."""
    stepper = Stepper(num_pages=7, page_size=B, budget=64)
    stepper.add(make_request("seen", text(20), 1))
    stepper.run()
    stepper.add(make_request("old", text(9, 1), 3))
    stepper.step()
    assert repr(stepper.pool) == "PagePool(free=0, used=3, cached=4)"
    stepper.add(make_request("new", text(20)[:17], 1))
    assert request_ids(stepper.step()) == ["old"]
    stepper.run()
    assert stepper.cached_tokens["new", 0] == 16
    assert stepper.scheduler.counters.preemptions == 0


# --- fairness in a step ---


def test_decoders_get_a_token_every_step_while_a_long_prompt_is_read():
    stepper = Stepper(num_pages=400, max_num_seqs=8, budget=16)
    for i in range(5):
        stepper.add(make_request(f"decoder{i}", text(3, i), 200))
    stepper.step()
    stepper.add(make_request("long", text(300, 9), 2))
    while not stepper.tokens["long", 0]:
        batch = stepper.step()
        assert batch
        assert row_lengths(batch) == [1, 1, 1, 1, 1, 11][: len(batch.rows)] or batch.rows[-1].draws
        assert len([row for row in batch.rows if row.request_id != "long"]) == 5


def test_a_short_prompt_is_not_held_up_by_an_older_long_one():
    stepper = Stepper(num_pages=400, budget=16)
    stepper.add(make_request("long", text(300), 2))
    stepper.step()
    assert steps_until_first_token(stepper, make_request("short", text(8, 1), 2)) == 1


def test_a_prompt_goes_on_though_decoders_could_use_up_the_budget():
    stepper = Stepper(num_pages=400, max_num_seqs=8, budget=3)
    stepper.add(make_request("a", text(1, 1), 200))
    stepper.step()
    stepper.add(make_request("prompt", text(6, 9), 2))
    for i in range(3):
        stepper.add(make_request(f"late{i}", text(1, i), 200))
    steps = 0
    while not stepper.tokens["prompt", 0]:
        assert stepper.step()
        steps += 1
    assert steps <= 6


# --- preemption ---


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_six_requests_end_in_a_pool_for_two_with_their_solo_texts(prefix_cache):
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


def test_a_penalty_remembers_what_was_generated_before_a_preemption():
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


def test_a_request_that_needs_the_whole_pool_does_not_preempt_itself():
    """Case C07."""
    stepper = Stepper(num_pages=3, page_size=B)
    stepper.add(make_request("a", text(3), 9))
    stepper.run()
    assert stepper.scheduler.counters.preemptions == 0


def test_the_youngest_gives_its_pages_back_first():
    stepper = Stepper(num_pages=9, page_size=2, max_num_seqs=3)
    for i in range(3):
        stepper.add(make_request(str(i), text(3, i), 9))
        stepper.step()
    while not stepper.scheduler.counters.preemptions:
        assert stepper.step()
    assert [s.request.request_id for s in stepper.scheduler.waiting] == ["2"]


def test_a_preempted_sequence_holds_no_page():
    stepper = Stepper(num_pages=6, page_size=2)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.add(make_request("b", text(3, 2), 8))
    while not stepper.scheduler.counters.preemptions:
        assert stepper.step()
    (preempted,) = stepper.scheduler.waiting
    assert preempted.num_computed_tokens == 0
    assert not preempted.table.page_ids


def test_a_preempted_sequence_computes_its_generated_tokens_again():
    stepper = Stepper(num_pages=6, page_size=2, prefix_cache=False)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.add(make_request("b", text(3, 2), 8))
    batches = stepper.run()
    assert stepper.scheduler.counters.preemptions == 1
    resumed = next(batch.rows[0] for batch in batches if request_ids(batch) == ["b"])
    generated = tuple(stepper.tokens["b", 0])
    assert resumed.token_ids == (*text(3, 2), *generated)[: len(resumed.token_ids)]
    assert len(resumed.token_ids) > 3


def test_a_preempted_sequence_finds_its_own_pages_in_the_cache():
    computed = []
    for prefix_cache in (False, True):
        stepper = Stepper(num_pages=6, page_size=2, prefix_cache=prefix_cache)
        stepper.add(make_request("a", text(3, 1), 6))
        stepper.add(make_request("b", text(5, 2), 6))
        stepper.run()
        assert stepper.scheduler.counters.preemptions >= 1
        computed.append(stepper.model.num_computed_tokens)
    assert computed[1] < computed[0]


def test_cached_tokens_are_those_of_the_first_reading_not_of_a_preemption():
    stepper = Stepper(num_pages=6, page_size=2)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.add(make_request("b", text(5, 2), 6))
    stepper.run()
    assert stepper.scheduler.counters.preemptions >= 1
    assert stepper.cached_tokens["b", 0] == 0
    assert stepper.scheduler.counters.prefix_hit_tokens == 0
    assert stepper.scheduler.counters.prefix_query_tokens == 8


def test_tokens_are_counted_once_whatever_is_computed_twice():
    stepper = Stepper(num_pages=6, page_size=2, prefix_cache=False)
    stepper.add(make_request("a", text(3, 1), 8))
    stepper.add(make_request("b", text(3, 2), 8))
    stepper.run()
    assert stepper.scheduler.counters.preemptions > 0
    assert stepper.scheduler.counters.prompt_tokens == 6
    assert stepper.scheduler.counters.generated_tokens == 16


# --- several answers to one prompt ---


def test_the_prompt_of_eight_answers_is_computed_once_and_its_full_pages_exist_once():
    stepper = Stepper(prefix_cache=False)
    stepper.add(make_request("a", text(2 * B + 1), 3, n=8))
    stepper.step()
    assert stepper.model.num_computed_tokens == 2 * B + 1
    assert stepper.pool.num_used == 3
    stepper.step()
    assert stepper.pool.num_used == 2 + 8
    stepper.run()
    assert len(stepper.ends) == 8
    assert stepper.scheduler.counters.prompt_tokens == 2 * B + 1


def test_answers_to_a_prompt_of_whole_pages_copy_nothing():
    stepper = Stepper()
    stepper.add(make_request("a", text(2 * B), 3, n=4))
    stepper.run()
    assert stepper.scheduler.counters.page_copies == 0


def test_the_copies_of_a_shared_tail_are_counted():
    stepper = Stepper()
    stepper.add(make_request("a", text(2 * B + 1), 3, n=4))
    stepper.run()
    assert stepper.scheduler.counters.page_copies == 4


def test_answers_differ_by_their_index():
    stepper = Stepper()
    stepper.add(make_request("a", text(5), 6, n=3))
    stepper.run()
    assert len({tuple(tokens) for tokens in stepper.tokens.values()}) == 3


def test_several_answers_fit_a_pool_that_holds_little_more_than_one():
    stepper = Stepper(num_pages=4, page_size=2, max_num_seqs=4)
    stepper.add(make_request("a", text(3), 5, n=4))
    stepper.run()
    assert len(stepper.ends) == 4


# --- prefix cache ---


def test_an_identical_prompt_computes_only_its_last_token():
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(2 * B + 1), 1))
        computed = stepper.model.num_computed_tokens
        stepper.run()
    assert stepper.model.num_computed_tokens - computed == 1
    assert stepper.cached_tokens["b", 0] == 2 * B


def test_the_page_of_the_last_token_is_computed_again():
    """A page is shared whole, and the last token must be computed to draw the next."""
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(2 * B), 1))
        stepper.run()
    assert stepper.cached_tokens["b", 0] == B
    assert stepper.pool.num_cached == 2


def test_a_page_is_found_only_after_it_was_computed():
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 1))
    assert stepper.plan()
    stepper.add(make_request("b", text(9), 1))
    assert stepper.scheduler.rollback()
    assert stepper.pool.num_cached == 0


def test_identical_prompts_in_one_step_are_computed_once():
    stepper = Stepper()
    for request_id in "abc":
        stepper.add(make_request(request_id, text(3 * B + 1), 1))
    batches = stepper.run()
    assert [request_ids(batch) for batch in batches] == [["a"], ["b", "c"]]
    assert stepper.model.num_computed_tokens == 3 * B + 1 + 1 + 1
    assert stepper.cached_tokens["c", 0] == 3 * B


def test_a_twin_follows_page_by_page_while_a_long_prompt_is_read():
    stepper = Stepper(budget=B)
    for request_id in "ab":
        stepper.add(make_request(request_id, text(3 * B + 1), 1))
    stepper.run()
    assert stepper.model.num_computed_tokens == 3 * B + 2


def test_prompts_that_part_within_a_page_are_computed_side_by_side():
    stepper = Stepper()
    stepper.add(make_request("a", [*text(B - 1), 1, 9, 9], 1))
    stepper.add(make_request("b", [*text(B - 1), 2, 9, 9], 1))
    assert request_ids(stepper.step()) == ["a", "b"]


def test_twins_of_different_salts_share_nothing():
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 1, salt="alice"))
    stepper.add(make_request("b", text(9), 1, salt="bob"))
    assert request_ids(stepper.step()) == ["a", "b"]
    stepper.add(make_request("c", text(9), 1, salt="carol"))
    stepper.run()
    assert stepper.cached_tokens["c", 0] == 0


def test_requests_of_one_salt_share():
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(9), 1, salt="alice"))
        stepper.run()
    assert stepper.cached_tokens["b", 0] == 8


def test_a_twin_goes_on_alone_when_the_older_one_is_gone():
    stepper = Stepper(budget=B)
    for request_id in "ab":
        stepper.add(make_request(request_id, text(3 * B), 1))
    stepper.step()
    stepper.abort("a")
    stepper.run()
    assert stepper.ends == {("b", 0): FinishReason.LENGTH}


def test_twins_without_a_prefix_cache_are_computed_side_by_side():
    stepper = Stepper(prefix_cache=False)
    for request_id in "ab":
        stepper.add(make_request(request_id, text(9), 1))
    assert request_ids(stepper.step()) == ["a", "b"]
    assert stepper.pool.num_cached == 0
    assert stepper.scheduler.counters.prefix_query_tokens == 0


def test_query_and_hit_tokens_are_counted_once_per_request():
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(9), 3, n=2))
        stepper.run()
    counters = stepper.scheduler.counters
    assert (counters.prefix_query_tokens, counters.prefix_hit_tokens) == (18, 8)


def test_a_growing_chat_computes_its_new_turns_only():
    stepper = Stepper(num_pages=200, budget=64)
    history = text(5)
    for turn in range(10):
        computed = stepper.model.num_computed_tokens
        stepper.add(make_request(str(turn), history, 6))
        stepper.run()
        assert stepper.model.num_computed_tokens - computed <= 5 + 6 + B
        history = [*history, *stepper.tokens[str(turn), 0], *text(5, turn)]


CHUNK = 8  # C: tokens of a step
LENGTHS = [1, B - 1, B, B + 1, CHUNK - 1, CHUNK, CHUNK + 1]
LENGTHS += [2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 8 * CHUNK]


@pytest.mark.parametrize("length", sorted(set(LENGTHS)))
@pytest.mark.parametrize("prefix", ["0", "B", "C", "L-1", "L"])
def test_no_chunk_is_empty_and_no_token_wrong_at_any_edge(length, prefix):
    """Case C14."""
    cached = {"0": 0, "B": B, "C": CHUNK, "L-1": length - 1, "L": length}[prefix]
    stepper = Stepper(budget=CHUNK)
    cached = min(cached, length)
    if cached:
        stepper.add(make_request("warm", text(length)[:cached], 1))
        stepper.run()
    stepper.add(make_request("a", text(length), 8))
    batches = stepper.run()
    assert all(row.token_ids for batch in batches for row in batch.rows)
    assert max(batch.num_tokens for batch in batches) <= CHUNK
    assert stepper.cached_tokens["a", 0] == min(cached, length - 1) // B * B
    assert len(stepper.tokens["a", 0]) == 8


def test_prompts_of_all_lengths_at_once_get_their_solo_texts():
    """Case C14."""
    stepper = Stepper(num_pages=100, max_num_seqs=16, budget=CHUNK)
    for length in LENGTHS:
        stepper.add(make_request(f"{length}", text(length), 8))
    stepper.run()
    assert len(stepper.ends) == len({*LENGTHS})


# --- abort ---


def test_an_aborted_waiter_is_gone():
    stepper = Stepper()
    stepper.add(make_request("a", text(3)))
    stepper.abort("a")
    assert not stepper.scheduler.has_work


def test_an_aborted_runner_gives_its_pages_back():
    stepper = Stepper(prefix_cache=False)
    stepper.add(make_request("a", text(9), 9))
    stepper.step()
    stepper.abort("a")
    assert not stepper.scheduler.has_work
    assert stepper.pool.num_used == 0


def test_the_pages_of_a_request_aborted_while_a_step_runs_stay_held_until_it_ends():
    stepper = Stepper(prefix_cache=False)
    stepper.add(make_request("a", text(9), 9))
    batch = stepper.plan()
    assert batch
    stepper.abort("a")
    assert stepper.pool.num_used == 3
    assert stepper.finish(batch) == []
    assert stepper.pool.num_used == 0
    assert not stepper.scheduler.has_work


def test_a_request_aborted_while_a_failing_step_runs_ends_without_an_event():
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 9))
    stepper.plan()
    stepper.abort("a")
    assert stepper.take(stepper.scheduler.fail("broken")) == []
    assert not stepper.scheduler.has_work


def test_one_answer_can_be_aborted_before_the_prompt_is_read():
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3, n=3))
    stepper.abort("a", 0)
    stepper.run()
    assert set(stepper.ends) == {("a", 1), ("a", 2)}


def test_one_answer_can_be_aborted_while_the_prompt_is_read():
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3, n=3))
    batch = stepper.plan()
    assert batch
    stepper.abort("a", 1)
    stepper.finish(batch)
    stepper.run()
    assert set(stepper.ends) == {("a", 0), ("a", 2)}


def test_one_answer_can_be_aborted_while_all_are_written():
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3, n=3))
    stepper.step()
    stepper.abort("a", 2)
    stepper.run()
    assert set(stepper.ends) == {("a", 0), ("a", 1)}


def test_aborting_every_answer_one_by_one_ends_the_request():
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3, n=2))
    stepper.abort("a", 0)
    stepper.abort("a", 1)
    assert not stepper.scheduler.has_work


@pytest.mark.parametrize(("request_id", "index"), [("b", None), ("a", 5), ("b", 0)])
def test_an_unknown_abort_is_ignored(request_id, index):
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3))
    stepper.step()
    stepper.abort(request_id, index)
    stepper.run()
    assert set(stepper.ends) == {("a", 0)}


def test_an_abort_can_be_repeated_while_a_step_runs():
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3))
    batch = stepper.plan()
    assert batch
    stepper.abort("a")
    stepper.abort("a")
    stepper.finish(batch)
    assert not stepper.scheduler.has_work


# --- faults ---


def busy_stepper(prefix_cache: bool = False) -> Stepper:
    """Decoders, a shared tail about to be copied and a prompt in the middle of being read."""
    stepper = Stepper(budget=8, prefix_cache=prefix_cache)
    stepper.pool.release(stepper.pool.allocate(stepper.pool.num_pages))
    stepper.add(make_request("two", text(5, 1), 20, n=2))
    stepper.step()
    stepper.add(make_request("long", text(30, 2), 3))
    return stepper


def test_a_rolled_back_step_never_was():
    stepper = busy_stepper()
    before = see(stepper.pool)
    batch = stepper.plan()
    assert batch
    assert batch.page_copies
    stepper.scheduler.rollback()
    stepper.scheduler.check()
    assert see(stepper.pool) == before
    assert stepper.plan() == batch


@pytest.mark.parametrize("num_failures", [1, 2, 5])
def test_texts_go_on_unharmed_after_steps_that_failed_half_way(num_failures):
    stepper = busy_stepper(prefix_cache=True)
    for _ in range(num_failures):
        batch = stepper.plan()
        assert batch
        stepper.model.write(batch)
        stepper.scheduler.rollback()
        stepper.scheduler.check()
    stepper.run()
    assert set(stepper.ends) == {("two", 0), ("two", 1), ("long", 0)}


def test_a_request_in_a_rolled_back_step_starts_in_the_next():
    stepper = Stepper()
    stepper.add(make_request("a", text(3)))
    assert stepper.plan()
    stepper.scheduler.rollback()
    assert stepper.scheduler.counters.prompt_tokens == 0
    batch = stepper.step()
    assert batch
    assert batch.started == ("a",)
    assert stepper.scheduler.counters.prompt_tokens == 3


def test_a_failed_step_ends_its_sequences_with_the_error_and_no_others():
    stepper = Stepper(max_num_seqs=2)
    stepper.add(make_request("two", text(5, 1), 20, n=2))
    stepper.add(make_request("queued", text(5, 2), 2))
    stepper.step()
    stepper.plan()
    stepper.take(stepper.scheduler.fail("the device is gone"))
    assert stepper.errors == {("two", 0): "the device is gone", ("two", 1): "the device is gone"}
    assert stepper.pool.num_used == 0
    stepper.run()
    assert stepper.ends["queued", 0] is FinishReason.LENGTH


def test_a_failed_first_step_ends_every_answer_of_a_request():
    stepper = Stepper()
    stepper.add(make_request("a", text(5), 3, n=3))
    stepper.plan()
    stepper.take(stepper.scheduler.fail("broken"))
    assert set(stepper.errors) == {("a", 0), ("a", 1), ("a", 2)}


def test_a_draw_that_fails_ends_that_sequence_alone():
    stepper = Stepper()
    stepper.add(make_request("a", text(5, 1), 6))
    stepper.add(make_request("b", text(5, 2), 6, n=2))
    stepper.step()
    stepper.model.failing = {("b", 1)}
    stepper.run()
    assert stepper.errors == {("b", 1): "the sampler failed"}
    assert stepper.ends["a", 0] is stepper.ends["b", 0] is FinishReason.LENGTH
    assert stepper.pool.num_used == 0


def test_a_first_draw_that_fails_leaves_the_other_answers():
    stepper = Stepper()
    stepper.model.failing = {("a", 0)}
    stepper.add(make_request("a", text(5, 1), 6, n=3))
    stepper.run()
    assert set(stepper.errors) == {("a", 0)}
    assert set(stepper.ends) == {("a", 0), ("a", 1), ("a", 2)}


def test_all_can_be_ended_at_once():
    stepper = Stepper(max_num_seqs=2)
    stepper.add(make_request("a", text(5, 1), 6, n=2))
    stepper.add(make_request("b", text(5, 2), 6))
    stepper.step()
    stepper.take(stepper.scheduler.fail_all("shutting down"))
    assert set(stepper.errors) == {("a", 0), ("a", 1), ("b", 0)}
    assert not stepper.scheduler.has_work
    assert stepper.pool.num_used == 0


# --- random traffic ---


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_no_request_of_a_random_stream_starves_or_gets_another_text(seed, prefix_cache):
    """Case D13; the seed replays the trace. The pool is 1.3 times the largest request's need."""
    shape = TraceShape(max_n=2)
    longest = max(shape.head_lengths) + max(shape.body_lengths) + max(shape.max_tokens)
    num_pages = -(-longest * 13 // 10 // B)
    stepper = Stepper(num_pages, B, max_num_seqs=6, budget=24, prefix_cache=prefix_cache)
    arrivals = list(make_trace(seed, shape))
    aborts = {a.abort_step: a.request.request_id for a in arrivals if a.abort_step is not None}
    step = 0
    while arrivals or stepper.scheduler.has_work:
        while arrivals and arrivals[0].step <= step:
            stepper.add(arrivals.pop(0).request)
        batch = stepper.plan()
        if step in aborts:
            stepper.abort(aborts[step])
        if batch:
            stepper.finish(batch)
        step += 1
        assert step < 10_000
    aborted = {*aborts.values()}
    for request in stepper.requests.values():
        keys = {(request.request_id, index) for index in range(request.sampling.n)}
        assert keys <= {*stepper.ends} or request.request_id in aborted
    assert stepper.pool.num_used == 0
