"""Several answers to one prompt, and the prefix cache: what is computed once and kept once."""

import pytest

from engine.token_event import FinishReason
from tests.support.stepper import Stepper, make_request, request_ids, text

B = 4  # page size


# --- several answers to one prompt ---


def test_the_prompt_of_eight_answers_is_computed_once_and_its_full_pages_exist_once() -> None:
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


def test_answers_to_a_prompt_of_whole_pages_copy_nothing() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(2 * B), 3, n=4))
    stepper.run()
    assert stepper.scheduler.counters.page_copies == 0


def test_the_copies_of_a_shared_tail_are_counted() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(2 * B + 1), 3, n=4))
    stepper.run()
    assert stepper.scheduler.counters.page_copies == 4


def test_answers_differ_by_their_index() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(5), 6, n=3))
    stepper.run()
    assert len({tuple(tokens) for tokens in stepper.tokens.values()}) == 3


def test_several_answers_fit_a_pool_that_holds_little_more_than_one() -> None:
    stepper = Stepper(num_pages=4, page_size=2, max_num_seqs=4)
    stepper.add(make_request("a", text(3), 5, n=4))
    stepper.run()
    assert len(stepper.ends) == 4


# --- prefix cache ---


def test_an_identical_prompt_computes_only_its_last_token() -> None:
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(2 * B + 1), 1))
        computed = stepper.model.num_computed_tokens
        stepper.run()
    assert stepper.model.num_computed_tokens - computed == 1
    assert stepper.cached_tokens["b", 0] == 2 * B


def test_the_page_of_the_last_token_is_computed_again() -> None:
    """A page is shared whole, and the last token must be computed to draw the next."""
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(2 * B), 1))
        stepper.run()
    assert stepper.cached_tokens["b", 0] == B
    assert stepper.pool.num_cached == 2


def test_a_page_is_found_only_after_it_was_computed() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 1))
    assert stepper.plan()
    stepper.add(make_request("b", text(9), 1))
    assert stepper.scheduler.rollback()
    assert stepper.pool.num_cached == 0


def test_identical_prompts_in_one_step_are_computed_once() -> None:
    stepper = Stepper()
    for request_id in "abc":
        stepper.add(make_request(request_id, text(3 * B + 1), 1))
    batches = stepper.run()
    assert [request_ids(batch) for batch in batches] == [["a"], ["b", "c"]]
    assert stepper.model.num_computed_tokens == 3 * B + 1 + 1 + 1
    assert stepper.cached_tokens["c", 0] == 3 * B


def test_a_twin_follows_page_by_page_while_a_long_prompt_is_read() -> None:
    stepper = Stepper(budget=B)
    for request_id in "ab":
        stepper.add(make_request(request_id, text(3 * B + 1), 1))
    stepper.run()
    assert stepper.model.num_computed_tokens == 3 * B + 2
    assert stepper.cached_tokens["b", 0] == 3 * B
    assert stepper.scheduler.counters.prefix_hit_tokens == 3 * B


def test_a_twin_waits_for_a_page_that_is_half_computed() -> None:
    stepper = Stepper(budget=B + 2)
    stepper.add(make_request("a", text(3 * B), 1))
    stepper.step()
    stepper.add(make_request("b", text(3 * B), 1))
    assert request_ids(stepper.step()) == ["a"]


def test_a_longer_prompt_waits_for_the_page_that_a_shorter_one_fills() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(B), 1))
    stepper.add(make_request("b", text(B + 2), 1))
    assert request_ids(stepper.step()) == ["a"]
    stepper.run()
    assert stepper.cached_tokens["b", 0] == B


def test_twins_do_not_wait_for_a_page_that_holds_their_last_token() -> None:
    """It must be computed for that token's sake anyway."""
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(B), 1))
    assert request_ids(stepper.step()) == ["a", "b"]
    assert stepper.pool.num_cached == 1


def test_prompts_that_part_within_a_page_are_computed_side_by_side() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", [*text(B - 1), 1, 9, 9], 1))
    stepper.add(make_request("b", [*text(B - 1), 2, 9, 9], 1))
    assert request_ids(stepper.step()) == ["a", "b"]


def test_twins_of_different_salts_share_nothing() -> None:
    stepper = Stepper()
    stepper.add(make_request("a", text(9), 1, salt="alice"))
    stepper.add(make_request("b", text(9), 1, salt="bob"))
    assert request_ids(stepper.step()) == ["a", "b"]
    stepper.add(make_request("c", text(9), 1, salt="carol"))
    stepper.run()
    assert stepper.cached_tokens["c", 0] == 0


def test_requests_of_one_salt_share() -> None:
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(9), 1, salt="alice"))
        stepper.run()
    assert stepper.cached_tokens["b", 0] == 8


def test_a_twin_goes_on_alone_when_the_older_one_is_gone() -> None:
    stepper = Stepper(budget=B)
    for request_id in "ab":
        stepper.add(make_request(request_id, text(3 * B), 1))
    stepper.step()
    stepper.abort("a")
    stepper.run()
    assert stepper.ends == {("b", 0): FinishReason.LENGTH}


def test_twins_without_a_prefix_cache_are_computed_side_by_side() -> None:
    stepper = Stepper(prefix_cache=False)
    for request_id in "ab":
        stepper.add(make_request(request_id, text(9), 1))
    assert request_ids(stepper.step()) == ["a", "b"]
    assert stepper.pool.num_cached == 0
    assert stepper.scheduler.counters.prefix_query_tokens == 0


def test_query_and_hit_tokens_are_counted_once_per_request() -> None:
    stepper = Stepper()
    for request_id in "ab":
        stepper.add(make_request(request_id, text(9), 3, n=2))
        stepper.run()
    counters = stepper.scheduler.counters
    assert (counters.prefix_query_tokens, counters.prefix_hit_tokens) == (18, 8)


def test_a_growing_chat_computes_its_new_turns_only() -> None:
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
def test_no_chunk_is_empty_and_no_token_wrong_at_any_edge(length: int, prefix: str) -> None:
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


def test_prompts_of_all_lengths_at_once_get_their_solo_texts() -> None:
    """Case C14."""
    stepper = Stepper(num_pages=100, max_num_seqs=16, budget=CHUNK)
    for length in LENGTHS:
        stepper.add(make_request(f"{length}", text(length), 8))
    stepper.run()
    assert len(stepper.ends) == len({*LENGTHS})
