"""The scheduler, stepped by hand with a fake model that notices every wrong page."""

import pytest

from engine.config import EngineConfig
from engine.engine_stats import EngineLimits
from engine.errors import InvalidRequest, Overloaded, PromptTooLong
from engine.page_pool import PagePool
from engine.request import Request
from engine.scheduler import Scheduler
from engine.token_event import FinishReason
from tests.support.pools import see
from tests.support.stepper import Stepper, make_request, request_ids, row_lengths, text

B = 4  # page size


FOREVER = 5000


def steps_until_first_token(stepper: Stepper, request: Request) -> int:
    stepper.add(request)
    steps = 0
    while not stepper.tokens[request.request_id, 0]:
        assert stepper.step()
        steps += 1
    return steps


# --- one request ---


def test_an_idle_scheduler_plans_nothing() -> None:
    stepper = Stepper()
    assert stepper.step() is None
    assert not stepper.scheduler.has_work


def test_there_is_work_as_long_as_someone_waits_or_runs() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(3), 2))
    assert stepper.scheduler.has_work
    stepper.step()
    assert not stepper.scheduler.waiting
    assert stepper.scheduler.has_work
    stepper.run()
    assert not stepper.scheduler.has_work


def test_a_request_gets_its_solo_text_and_gives_every_page_back() -> None:
    stepper = Stepper(prefix_cache=False)
    stepper.add(make_request("a", text(10), 7))
    stepper.run()
    assert stepper.ends == {("a", 0): FinishReason.LENGTH}
    assert repr(stepper.pool) == "PagePool(free=64, used=0, cached=0)"


def test_the_full_pages_of_a_finished_text_stay_cached() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(10), 7))  # 16 of its 17 tokens were computed
    stepper.run()
    assert repr(stepper.pool) == "PagePool(free=60, used=0, cached=4)"


def test_a_prompt_is_read_in_chunks_of_the_budget() -> None:
    stepper = Stepper(budget=6)
    stepper.add(make_request("a", text(15), 2))
    assert [row_lengths(batch) for batch in stepper.run()] == [[6], [6], [3], [1]]


def test_only_the_row_that_reaches_the_end_of_the_text_draws() -> None:
    stepper = Stepper(budget=6)
    stepper.add(make_request("a", text(15), 1))
    assert [len(batch.rows[0].draws) for batch in stepper.run()] == [0, 0, 1]


def test_the_plan_names_positions_pages_and_slots() -> None:
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


def test_a_request_is_named_as_started_in_its_first_step_only() -> None:
    stepper = Stepper(budget=6)
    stepper.add(make_request("a", text(9), 2))
    assert [batch.started for batch in stepper.run()] == [("a",), (), ()]


def test_the_end_of_the_context_ends_the_text() -> None:
    stepper = Stepper(max_model_len=12)
    stepper.add(make_request("a", text(9), 100))
    stepper.run()
    assert len(stepper.tokens["a", 0]) == 3
    assert stepper.ends["a", 0] is FinishReason.LENGTH


def test_a_text_may_fill_the_whole_pool() -> None:
    stepper = Stepper(num_pages=3, page_size=B)
    stepper.add(make_request("a", text(5), 100))
    stepper.run()
    assert len(stepper.tokens["a", 0]) == 3 * B - 5


def test_an_eos_token_ends_the_text_unless_it_is_ignored() -> None:
    stepper = Stepper(num_pages=512, max_num_seqs=64)
    for seed in range(40):
        stepper.add(make_request(str(seed), text(3, seed), 40, ignore_eos=False))
    stepper.run()
    stopped = [key for key, reason in stepper.ends.items() if reason is FinishReason.STOP]
    assert stopped
    assert all(stepper.tokens[key][-1] == 59 for key in stopped)


def test_no_end_comes_before_min_tokens() -> None:
    stepper = Stepper(num_pages=512, max_num_seqs=64)
    for seed in range(40):
        request = make_request(str(seed), text(3, seed), 90, ignore_eos=False, min_tokens=30)
        stepper.add(request)
    stepper.run()
    assert min(len(tokens) for tokens in stepper.tokens.values()) >= 30
    assert FinishReason.STOP in stepper.ends.values()


def test_a_stop_token_ends_the_text() -> None:
    stepper = Stepper()
    free = make_request("free", text(5), 10)
    stepper.add(free)
    stepper.run()
    stop = stepper.tokens["free", 0][4]
    stepper.add(make_request("a", text(5), 10, stop_token_ids=frozenset({stop})))
    stepper.run()
    assert stepper.ends["a", 0] is FinishReason.STOP
    assert stepper.tokens["a", 0][-1] == stop


def test_a_prompt_can_be_scored_without_an_answer() -> None:
    stepper = Stepper(budget=5)
    stepper.add(make_request("a", text(13), 0, prompt_logprobs=2))
    batches = stepper.run()
    assert [len(batch.rows[0].targets) for batch in batches] == [5, 5, 2]
    assert {batch.rows[0].num_alternatives for batch in batches} == {2}
    assert stepper.ends == {("a", 0): FinishReason.LENGTH}
    assert stepper.tokens["a", 0] == []


@pytest.mark.parametrize("length", [1, B - 1, B, B + 1, 3 * B + 2])
def test_a_scored_prompt_is_scored_in_full_though_its_pages_are_cached(length: int) -> None:
    """Case D02; the stepper compares every score with the solo run."""
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(length), 1, prompt_logprobs=0))
        stepper.run()
    assert stepper.cached_tokens["b", 0] == 0


def test_a_scored_prompt_of_several_answers_is_reported_with_each() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(6), 2, n=3, prompt_logprobs=0))
    stepper.run()
    assert len(stepper.ends) == 3


# --- refusals ---


def test_limits_that_the_pool_cannot_hold_are_refused() -> None:
    limits = EngineLimits(max_model_len=9, max_num_seqs=1, vocab_size=10)
    with pytest.raises(ValueError, match="2 pages cannot hold 9 tokens"):
        Scheduler(EngineConfig(0), limits, frozenset(), PagePool(2, B))


def test_a_request_that_can_never_fit_is_refused_at_once_and_the_small_go_on() -> None:
    """Case C06."""
    stepper = Stepper(num_pages=5, page_size=B)
    with pytest.raises(PromptTooLong, match=r"has 21 tokens.* 20, "):
        stepper.add(make_request("huge", text(21), 1))
    stepper.add(make_request("cut", text(15), 50))
    for i in range(5):
        stepper.add(make_request(f"small{i}", text(3, i), 3))
    stepper.run()
    assert len(stepper.tokens["cut", 0]) == 5
    assert len(stepper.ends) == 6


def test_a_refused_request_changes_nothing() -> None:
    stepper = Stepper()
    before = see(stepper.pool)
    with pytest.raises(InvalidRequest):
        stepper.add(make_request("a", [], 1))
    assert not stepper.scheduler.has_work
    assert see(stepper.pool) == before


def test_a_full_queue_refuses_until_someone_starts() -> None:
    stepper = Stepper(max_queue=2)
    stepper.add(make_request("a", text(3)))
    stepper.add(make_request("b", text(3)))
    with pytest.raises(Overloaded, match="2 requests wait already"):
        stepper.add(make_request("c", text(3)))
    stepper.step()
    stepper.add(make_request("c", text(3)))
    stepper.run()
    assert set(stepper.ends) == {("a", 0), ("b", 0), ("c", 0)}


def test_a_preempted_sequence_takes_no_place_in_the_queue() -> None:
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


def test_a_newcomer_gets_its_first_token_in_one_step_beside_decoders() -> None:
    """Case C05."""
    stepper = Stepper(num_pages=2000, max_num_seqs=4, budget=16)
    for i in range(3):
        stepper.add(make_request(f"old{i}", text(9, i), FOREVER))
        stepper.step()
    assert steps_until_first_token(stepper, make_request("new", text(9, 9), 2)) == 1


def test_four_cold_prompts_at_once_all_run() -> None:
    """Case C05."""
    stepper = Stepper(max_num_seqs=4, budget=16)
    for i in range(4):
        stepper.add(make_request(str(i), text(12, i), 20))
    stepper.step()
    assert len(tuple(stepper.scheduler.running)) == 4


def test_no_one_waits_for_an_end_while_a_slot_and_pages_are_free() -> None:
    """Case C05."""
    stepper = Stepper(num_pages=64, max_num_seqs=3)
    for i in range(3):
        stepper.add(make_request(f"first{i}", text(5, i), 4 + i))
    for i in range(6):
        stepper.add(make_request(f"more{i}", text(5, 10 + i), 5))
    stepper.step()
    while stepper.scheduler.waiting:
        assert len(request_ids(stepper.step())) == 3


def test_an_old_medium_request_is_not_overtaken_by_a_stream_of_short_ones() -> None:
    """Case C05: its age is bounded by its own length, whatever comes after it."""
    stepper = Stepper(num_pages=400, max_num_seqs=4, budget=8)
    stepper.add(make_request("medium", text(80), 4))
    steps = 0
    while ("medium", 0) not in stepper.ends:
        stepper.add(make_request(f"short{steps}", text(3, steps), 2))
        assert stepper.step()
        steps += 1
    assert steps <= 80 // (8 // 2 - 1) + 4


def test_each_request_is_younger_than_the_one_before() -> None:
    stepper = Stepper()
    for i in range(4):
        stepper.add(make_request(str(i), text(3, i)))
    assert [s.age.arrival for s in stepper.scheduler.waiting] == [0, 1, 2, 3]


def test_the_waiting_are_admitted_in_the_order_of_arrival() -> None:
    stepper = Stepper(max_num_seqs=1)
    for i in range(5):
        stepper.add(make_request(str(i), text(5 - i, i), 2))
    started = [name for batch in stepper.run() for name in batch.started]
    assert started == ["0", "1", "2", "3", "4"]


def test_a_request_of_many_answers_waits_for_as_many_slots() -> None:
    stepper = Stepper(max_num_seqs=4)
    stepper.add(make_request("a", text(5, 1), 6))
    stepper.add(make_request("four", text(5, 2), 2, n=4))
    stepper.add(make_request("b", text(5, 3), 2))
    stepper.step()
    assert len(tuple(stepper.scheduler.running)) == 1
    stepper.run()
    assert len(stepper.ends) == 6


def test_admission_leaves_the_running_the_pages_their_texts_will_need() -> None:
    stepper = Stepper(num_pages=8, page_size=B, budget=8)
    stepper.add(make_request("long", text(22), 6))
    stepper.step()
    stepper.add(make_request("other", text(9, 1), 2))
    stepper.step()
    assert [s.request.request_id for s in stepper.scheduler.running] == ["long"]
    stepper.run()
    assert stepper.scheduler.counters.preemptions == 0


def test_admission_counts_a_cached_page_it_would_use_again_as_taken() -> None:
    """Seven pages: three used, four cached. The newcomer wants those four, and a fifth."""
    stepper = Stepper(num_pages=7, page_size=B, budget=64)
    stepper.add(make_request("seen", text(20), 1))
    stepper.run()
    stepper.add(make_request("old", text(9, 1), 3))
    stepper.step()
    assert repr(stepper.pool) == "PagePool(free=0, used=3, cached=4)"
    stepper.add(make_request("new", text(20)[:17], 1))
    assert request_ids(stepper.step()) == ["old"]
    assert [s.request.request_id for s in stepper.scheduler.waiting] == ["new"]
    stepper.run()
    assert stepper.cached_tokens["new", 0] == 16
    assert stepper.scheduler.counters.preemptions == 0


def test_admission_counts_a_page_in_use_that_it_would_share_as_given() -> None:
    """Seven pages, five of them used. The newcomer shares four and needs one."""
    stepper = Stepper(num_pages=7, page_size=B, budget=64)
    stepper.add(make_request("old", text(17), 3))
    stepper.step()
    stepper.add(make_request("new", [*text(16), 1], 1))
    assert request_ids(stepper.step()) == ["old", "new"]


@pytest.mark.parametrize(
    ("length", "n", "num_pages"), [(B - 2, 1, 1), (B - 1, 1, 1), (B, 1, 2), (B + 1, 3, 4)]
)
def test_admission_needs_pages_for_the_prompt_the_next_token_and_the_forks(
    length: int, n: int, num_pages: int
) -> None:
    for spare, expected in ((num_pages - 1, ["old"]), (num_pages, ["old", "new"])):
        stepper = Stepper(num_pages=2 + spare, page_size=B, prefix_cache=False)
        stepper.add(make_request("old", text(B + 1), 3))  # two pages, and never more
        stepper.step()
        stepper.add(make_request("new", text(length, 1)[: stepper.limits.max_model_len - 1], n=n))
        assert request_ids(stepper.step()) == expected


def test_admission_keeps_a_hundredth_of_the_pages_free_for_the_running() -> None:
    for length, expected in ((B * 196, ["old"]), (B * 196 - 1, ["old", "new"])):
        stepper = Stepper(num_pages=200, page_size=B, budget=2000)
        stepper.add(make_request("old", text(B + 1), 3))
        stepper.step()
        stepper.add(make_request("new", text(length, 1)))
        assert request_ids(stepper.step()) == expected


# --- fairness in a step ---


def test_decoders_get_a_token_every_step_while_a_long_prompt_is_read() -> None:
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


def test_a_short_prompt_is_not_held_up_by_an_older_long_one() -> None:
    stepper = Stepper(num_pages=400, budget=16)
    stepper.add(make_request("long", text(300), 2))
    stepper.step()
    assert steps_until_first_token(stepper, make_request("short", text(8, 1), 2)) == 1


def test_a_prompt_goes_on_though_decoders_could_use_up_the_budget() -> None:
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
