"""Clients that leave and steps that fail: what ends, and what goes on unharmed."""

import pytest

from engine.token_event import FinishReason
from tests.support.pools import see
from tests.support.stepper import Stepper, make_request, text

B = 4  # page size


# --- abort ---


def test_an_aborted_waiter_is_gone() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(3)))
    stepper.abort("a")
    assert not stepper.scheduler.has_work


def test_an_aborted_runner_gives_its_pages_back() -> None:
    stepper = Stepper(prefix_cache=False)
    stepper.add(make_request("a", text(9), 9))
    stepper.step()
    stepper.abort("a")
    assert not stepper.scheduler.has_work
    assert stepper.pool.num_used == 0


def test_the_pages_of_a_request_aborted_while_a_step_runs_stay_held_until_it_ends() -> None:
    stepper = Stepper(prefix_cache=False)
    stepper.add(make_request("a", text(9), 9))
    batch = stepper.plan()
    assert batch
    stepper.abort("a")
    assert stepper.pool.num_used == 3
    assert stepper.finish(batch) == []
    assert stepper.pool.num_used == 0
    assert not stepper.scheduler.has_work


def test_a_request_aborted_while_a_failing_step_runs_ends_without_an_event() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 9))
    stepper.plan()
    stepper.abort("a")
    assert stepper.take(stepper.scheduler.fail("broken")) == []
    assert not stepper.scheduler.has_work


def test_one_answer_can_be_aborted_before_the_prompt_is_read() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3, n=3))
    stepper.abort("a", 0)
    stepper.run()
    assert set(stepper.ends) == {("a", 1), ("a", 2)}


def test_one_answer_can_be_aborted_while_the_prompt_is_read() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3, n=3))
    batch = stepper.plan()
    assert batch
    stepper.abort("a", 1)
    stepper.finish(batch)
    stepper.run()
    assert set(stepper.ends) == {("a", 0), ("a", 2)}


def test_one_answer_can_be_aborted_while_all_are_written() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3, n=3))
    stepper.step()
    stepper.abort("a", 2)
    stepper.run()
    assert set(stepper.ends) == {("a", 0), ("a", 1)}


def test_aborting_every_answer_one_by_one_ends_the_request() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3, n=2))
    stepper.abort("a", 0)
    stepper.abort("a", 1)
    assert not stepper.scheduler.has_work


@pytest.mark.parametrize(("request_id", "index"), [("b", None), ("a", 5), ("b", 0)])
def test_an_unknown_abort_is_ignored(request_id: str, index: int | None) -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 3))
    stepper.step()
    stepper.abort(request_id, index)
    stepper.run()
    assert set(stepper.ends) == {("a", 0)}


def test_an_abort_can_be_repeated_while_a_step_runs() -> None:
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


def test_a_rolled_back_step_never_was() -> None:
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
def test_texts_go_on_unharmed_after_steps_that_failed_half_way(num_failures: int) -> None:
    stepper = busy_stepper(prefix_cache=True)
    for _ in range(num_failures):
        batch = stepper.plan()
        assert batch
        stepper.model.write(batch)
        stepper.scheduler.rollback()
        stepper.scheduler.check()
    stepper.run()
    assert set(stepper.ends) == {("two", 0), ("two", 1), ("long", 0)}


def test_a_request_in_a_rolled_back_step_starts_in_the_next() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(3)))
    assert stepper.plan()
    stepper.scheduler.rollback()
    assert stepper.scheduler.counters.prompt_tokens == 0
    batch = stepper.step()
    assert batch
    assert batch.started == ("a",)
    assert stepper.scheduler.counters.prompt_tokens == 3


def test_a_failed_step_ends_its_sequences_with_the_error_and_no_others() -> None:
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


def test_a_failed_first_step_ends_every_answer_of_a_request() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(5), 3, n=3))
    stepper.plan()
    stepper.take(stepper.scheduler.fail("broken"))
    assert set(stepper.errors) == {("a", 0), ("a", 1), ("a", 2)}


def test_a_draw_that_fails_ends_that_sequence_alone() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(5, 1), 6))
    stepper.add(make_request("b", text(5, 2), 6, n=2))
    stepper.step()
    stepper.model.failing = {("b", 1)}
    stepper.run()
    assert stepper.errors == {("b", 1): "the sampler failed"}
    assert stepper.ends["a", 0] is stepper.ends["b", 0] is FinishReason.LENGTH
    assert stepper.pool.num_used == 0


def test_a_first_draw_that_fails_leaves_the_other_answers() -> None:
    stepper = Stepper()
    stepper.model.failing = {("a", 0)}
    stepper.add(make_request("a", text(5, 1), 6, n=3))
    stepper.run()
    assert set(stepper.errors) == {("a", 0)}
    assert set(stepper.ends) == {("a", 0), ("a", 1), ("a", 2)}


def test_all_can_be_ended_at_once() -> None:
    stepper = Stepper(max_num_seqs=2)
    stepper.add(make_request("a", text(5, 1), 6, n=2))
    stepper.add(make_request("b", text(5, 2), 6))
    stepper.step()
    stepper.take(stepper.scheduler.fail_all("shutting down"))
    assert set(stepper.errors) == {("a", 0), ("a", 1), ("b", 0)}
    assert not stepper.scheduler.has_work
    assert stepper.pool.num_used == 0
