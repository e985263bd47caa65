"""Prompt lookup: what followed the newest tokens before, and no work for what is known already."""

import random

import pytest

from engine.ngram_proposer import INDEXED_TOKENS, SIZES, NgramProposer
from engine.proposer import Ask, DraftRound, SequenceId

A = SequenceId(0, 0)


def propose(
    proposer: NgramProposer, token_ids: list[int], num_tokens: int = 4, sequence_id: SequenceId = A
) -> tuple[int, ...]:
    ask = Ask(sequence_id, token_ids, num_tokens)
    (answer,) = proposer.propose(DraftRound((ask,), frozenset({sequence_id})))
    return answer


def found_by_search(token_ids: list[int], num_tokens: int) -> tuple[int, ...]:
    """The slow obvious way: the longest run first, and of its places the latest."""
    for size in SIZES:
        run = token_ids[-size:]
        for stop in range(len(token_ids) - 1, size - 1, -1):
            if len(run) == size and token_ids[stop - size : stop] == run:
                text = list(token_ids)
                for i in range(num_tokens):
                    text.append(text[stop + i])
                return tuple(text[len(token_ids) :])
    return ()


def test_what_followed_the_newest_tokens_before_is_drafted() -> None:
    assert propose(NgramProposer(), [1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3]) == (4, 5, 6, 7)


def test_no_more_is_drafted_than_is_asked_for() -> None:
    assert propose(NgramProposer(), [1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3], num_tokens=2) == (4, 5)


def test_the_latest_of_several_places_decides() -> None:
    assert propose(NgramProposer(), [1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], num_tokens=1) == (8,)


def test_the_longest_run_decides_before_the_latest_place() -> None:
    text = [9, 8, 1, 2, 3, 7, 5, 1, 2, 3, 6, 9, 8, 1, 2, 3]
    assert propose(NgramProposer(), text, num_tokens=1) == (7,)


def test_a_text_that_repeats_itself_goes_on_repeating() -> None:
    assert propose(NgramProposer(), [5, 1, 2, 1, 2, 1, 2], num_tokens=5) == (1, 2, 1, 2, 1)


@pytest.mark.parametrize("text", [[], [1], [1, 2], [1, 2, 3, 4, 5, 6, 7, 8]])
def test_a_text_without_a_repetition_gets_no_draft(text: list[int]) -> None:
    assert propose(NgramProposer(), text) == ()


@pytest.mark.parametrize("seed", range(20))
def test_a_growing_text_gets_what_a_search_of_all_of_it_finds(seed: int) -> None:
    dice = random.Random(seed)
    proposer = NgramProposer()
    text: list[int] = []
    for _ in range(60):
        text += [dice.randrange(3) for _ in range(dice.choice((1, 1, 1, 4)))]
        assert propose(proposer, text, 5) == found_by_search(text, 5)


def test_a_long_prompt_is_taken_in_over_several_rounds() -> None:
    text = [*range(2 * INDEXED_TOKENS), 0, 1, 2]
    proposer = NgramProposer()
    assert [propose(proposer, text, 1) for _ in range(3)] == [(), (), (3,)]


def test_sequences_are_told_apart_and_forgotten_when_they_end() -> None:
    proposer = NgramProposer()
    other = SequenceId(1, 0)
    first, second = Ask(A, [1, 2, 3, 4, 1, 2, 3], 1), Ask(other, [1, 2, 3, 5, 1, 2, 3], 1)
    answers = proposer.propose(DraftRound((first, second), frozenset({A, other})))
    assert answers == [(4,), (5,)]
    propose(proposer, [1, 2], sequence_id=other)
    assert proposer.num_texts == 1
