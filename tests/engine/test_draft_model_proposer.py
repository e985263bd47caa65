"""Drafts of a second model: its own greedy tokens, from pages that are rewound to what is known."""

import random

import pytest

from engine.draft_model_proposer import DraftLimits, DraftModelProposer
from engine.page_pool import PagePool
from engine.proposer import Ask, DraftRound, SequenceId
from engine.step_batch import StepBatch
from tests.support.fake_runner import VOCAB_SIZE, FakeRunner, solo_tokens

PAGE_SIZE = 4
A, B = SequenceId(0, 0), SequenceId(1, 0)


class Drafting:
    """A proposer over the fake runner; `batches` are the passes of its model."""

    def __init__(self, num_pages: int = 64, catch_up: int = 100, max_context: int = 1000) -> None:
        self.batches: list[StepBatch] = []
        self.failing = False
        self.pool = PagePool(num_pages, PAGE_SIZE)
        runner = FakeRunner(PAGE_SIZE, self._note)
        self.proposer = DraftModelProposer(
            runner, self.pool, DraftLimits(max_context, VOCAB_SIZE, catch_up)
        )

    def ask(self, *asks: Ask, live: frozenset[SequenceId] = frozenset({A, B})) -> list[list[int]]:
        self.batches.clear()
        answers = self.proposer.propose(DraftRound(asks, live))
        self.proposer.check()
        return [list(answer) for answer in answers]

    def _note(self, batch: StepBatch) -> None:
        if self.failing:
            raise MemoryError("no memory left on the device")
        self.batches.append(batch)


def ask(token_ids: list[int], num_tokens: int = 3, sequence_id: SequenceId = A) -> Ask:
    return Ask(sequence_id, token_ids, num_tokens)


def prompt(length: int, seed: int = 0) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(VOCAB_SIZE) for _ in range(length)]


def test_the_drafts_are_the_models_own_greedy_tokens() -> None:
    assert Drafting().ask(ask(prompt(7), 5)) == [solo_tokens(prompt(7), 5)]


def test_all_sequences_are_drafted_for_in_one_pass_a_place() -> None:
    drafting = Drafting()
    first, second = ask(prompt(7), 3), ask(prompt(5, 1), 2, B)
    assert drafting.ask(first, second) == [solo_tokens(prompt(7), 3), solo_tokens(prompt(5, 1), 2)]
    assert [batch.num_tokens for batch in drafting.batches] == [12, 2, 1]


def test_accepted_drafts_are_not_computed_again() -> None:
    drafting = Drafting()
    text = prompt(7)
    (drafts,) = drafting.ask(ask(text, 3))
    text += [*drafts, 9]
    drafting.ask(ask(text, 1))
    assert drafting.batches[0].rows[0].token_ids == (drafts[-1], 9)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_becomes_of_the_drafts_the_next_ones_follow_the_known_text(seed: int) -> None:
    dice = random.Random(seed)
    drafting = Drafting()
    texts = {A: prompt(5, seed), B: prompt(9, seed + 1)}
    for _ in range(30):
        asks = [ask(text, dice.randint(1, 5), name) for name, text in texts.items()]
        asked = dice.sample(asks, dice.randint(1, 2))
        for answer, one in zip(drafting.ask(*asked), asked, strict=True):
            text = texts[one.sequence_id]
            assert answer == solo_tokens(text, one.num_tokens)
            text += [*answer[: dice.randint(0, len(answer))], dice.randrange(VOCAB_SIZE)]


def test_a_long_prompt_is_caught_up_with_in_pieces_that_hold_nobody_up() -> None:
    drafting = Drafting(catch_up=8)
    long, short = ask(prompt(20), 2), ask(prompt(3, 1), 2, B)
    answers = []
    for _ in range(5):
        answers.append(drafting.ask(long, short)[0])
        assert all(batch.num_tokens <= 8 for batch in drafting.batches)
        assert drafting.ask(short) == [solo_tokens(prompt(3, 1), 2)]
    assert answers[0] == []
    assert answers[-1] == solo_tokens(prompt(20), 2)


def test_a_full_pool_means_fewer_drafts_and_no_error() -> None:
    drafting = Drafting(num_pages=3)
    assert drafting.ask(ask(prompt(10), 6)) == [solo_tokens(prompt(10), 3)]
    assert drafting.ask(ask(prompt(10), 2), ask(prompt(4, 1), 2, B))[1] == []


def test_where_pages_run_out_texts_that_nobody_asks_for_give_way() -> None:
    drafting = Drafting(num_pages=3)
    drafting.ask(ask(prompt(9), 1))
    assert drafting.ask(ask(prompt(9, 1), 1, B)) == [solo_tokens(prompt(9, 1), 1)]


def test_pages_come_back_when_sequences_end() -> None:
    drafting = Drafting()
    drafting.ask(ask(prompt(9)), ask(prompt(5, 1), 1, B))
    drafting.ask(ask(prompt(9)), live=frozenset({A}))
    assert drafting.pool.num_used == 3
    drafting.ask(live=frozenset())
    assert drafting.pool.num_used == 0


def test_a_text_beyond_the_models_context_gets_no_drafts() -> None:
    drafting = Drafting(max_context=10)
    assert drafting.ask(ask(prompt(7), 3)) == [solo_tokens(prompt(7), 3)]
    assert drafting.ask(ask(prompt(8, 1), 3, B)) == [[]]


def test_a_text_with_an_id_that_the_model_does_not_know_gets_no_drafts() -> None:
    drafting = Drafting()
    assert drafting.ask(ask([1, VOCAB_SIZE, 2]), ask([1, 2], 1, B)) == [[], solo_tokens([1, 2], 1)]
    assert drafting.ask(ask([1, VOCAB_SIZE, 2, 3])) == [[]]


def test_a_fault_leaves_no_page_behind_and_the_next_round_works() -> None:
    drafting = Drafting()
    drafting.ask(ask(prompt(7)))
    drafting.failing = True
    with pytest.raises(MemoryError):
        drafting.ask(ask(prompt(7)), ask(prompt(5, 1), 1, B))
    drafting.proposer.check()
    assert drafting.pool.num_used == 0
    drafting.failing = False
    assert drafting.ask(ask(prompt(7), 2)) == [solo_tokens(prompt(7), 2)]
