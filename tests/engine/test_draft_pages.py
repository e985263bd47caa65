"""Pages for drafts: a cache that fills the pool does not stop them, and none is computed in vain."""

import random
from collections import Counter

import pytest

from engine.config import SpeculationConfig
from engine.proposer import Ask, Draft
from engine.speculation import Speculation
from engine.step_batch import StepBatch
from tests.support.scripted_drafts import always
from tests.support.stepper import Stepper, make_request, row_lengths, text

B = 4  # page size


def asking(stepper: Stepper, max_draft_tokens: int) -> Speculation:
    return Speculation(SpeculationConfig(max_draft_tokens), stepper.limits)


def with_full_cache(page_size: int, num_pages: int, **more: object) -> Stepper:
    """Every page is cached, none is free."""
    stepper = Stepper(num_pages, page_size, **more)  # type: ignore[arg-type]
    for name in "xy":
        stepper.add(make_request(name, text(num_pages * page_size // 2, ord(name)), 1))
        stepper.run()
    assert (stepper.pool.num_free, stepper.pool.num_cached) == (0, num_pages)
    return stepper


@pytest.mark.parametrize("page_size", [1, 16])
def test_a_full_cache_clips_no_draft(page_size: int) -> None:
    stepper = with_full_cache(page_size, 128 // page_size)
    stepper.drafter = always(8, 8)
    stepper.add(make_request("a", text(14, 1), 28))
    assert [row_lengths(batch) for batch in stepper.run()] == [[14], [9], [9], [9]]


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("num_right", [0, 3, 8])
def test_drafts_evict_only_what_the_text_takes_in_any_case(page_size: int, num_right: int) -> None:
    """A page that is rewound is free, and taken before the next cached one."""
    evictions = []
    for num_tokens in (0, 8):
        stepper = with_full_cache(page_size, 128 // page_size)
        stepper.drafter = always(num_tokens, num_right)
        stepper.add(make_request("a", text(14, 1), 40))
        stepper.run()
        evictions.append(stepper.pool.num_evictions)
    assert evictions[0] == evictions[1] > 0


def test_drafts_evict_the_least_recently_used_pages() -> None:
    stepper = with_full_cache(B, 16)
    stepper.drafter = always(2 * B, 0)
    oldest = stepper.pool.cached_pages()
    stepper.add(make_request("a", text(B, 1), 3 * B))
    stepper.step()
    stepper.step()
    assert stepper.pool.cached_pages() == oldest[4:]


@pytest.mark.parametrize("page_size", [1, 16])
def test_a_full_cache_is_room_for_as_much_as_an_empty_pool(page_size: int) -> None:
    num_pages = 128 // page_size
    asks = []
    for stepper in (Stepper(num_pages, page_size), with_full_cache(page_size, num_pages)):
        stepper.add(make_request("a", text(14, 1), 40))
        stepper.step()
        (sequence,) = stepper.scheduler.running
        sequence.draft_record.note(8, 8)
        (ask,) = asking(stepper, 8).asks([sequence], 64, stepper.pool)
        asks.append(ask.num_tokens)
    assert asks[0] == asks[1] > 1


@pytest.mark.parametrize("page_size", [1, 16])
def test_no_more_is_asked_for_than_there_are_pages(page_size: int) -> None:
    """Three pages of one slot go to the older; a page of 16 has three slots left, the other none."""
    stepper = Stepper(32 // page_size, page_size, prefix_cache=False)
    for name, length in (("a", 15), ("b", 12)):
        stepper.add(make_request(name, text(length, ord(name)), 9))
    stepper.step()
    for sequence in stepper.scheduler.running:
        sequence.draft_record.note(4, 4)
    asks = asking(stepper, 4).asks(stepper.scheduler.running, 64, stepper.pool)
    lengths = {ask.sequence_id.arrival: ask.num_tokens for ask in asks}
    assert lengths == ({0: 3} if page_size == 1 else {1: 3})


def test_a_text_without_a_slot_takes_none_of_the_budget() -> None:
    stepper = Stepper(2, 16, prefix_cache=False)
    for name, length in (("a", 15), ("b", 12)):
        stepper.add(make_request(name, text(length, ord(name)), 9))
    stepper.step()
    sure, likely = stepper.scheduler.running
    sure.draft_record.note(8, 8)
    likely.draft_record.note(4, 4)
    (ask,) = asking(stepper, 4).asks([sure, likely], 2 + 3, stepper.pool)
    assert (ask.sequence_id, ask.num_tokens) == (likely.sequence_id, 3)


class Asked:
    """A `drafter` that drafts as many tokens as it is asked for; mutable: the asks of the step."""

    def __init__(self, stepper: Stepper, dice: random.Random) -> None:
        self._speculation = asking(stepper, 8)
        self._dice = dice
        self.asks: tuple[Ask, ...] = ()

    def __call__(self, stepper: Stepper) -> list[Draft]:
        for sequence in stepper.scheduler.running:
            sequence.draft_record.note(8, self._dice.choice((2, 8)))
        self.asks = self._speculation.asks(stepper.scheduler.running, 30, stepper.pool)
        return [
            Draft(ask.sequence_id, len(ask.token_ids), (self._dice.randrange(60),) * ask.num_tokens)
            for ask in self.asks
        ]


def num_drafts(batch: StepBatch) -> int:
    return sum(len(row.draws) - 1 for row in batch.rows if row.draws)


def test_every_draft_that_was_asked_for_is_computed_unless_somebody_is_admitted() -> None:
    tally: Counter[str] = Counter()
    for seed in range(40):
        dice = random.Random(seed)
        page_size = dice.choice((1, 2, 4, 16))
        stepper = Stepper(64 // page_size, page_size, budget=30)
        drafter = stepper.drafter = Asked(stepper, dice)
        for number in range(60):
            if dice.random() < 0.3:
                length = dice.randint(1, 20)
                stepper.add(make_request(str(number), text(length, dice.randrange(5)), 20))
            running = {sequence.sequence_id for sequence in stepper.scheduler.running}
            batch = stepper.plan()
            if batch is None:
                continue
            if {sequence.sequence_id for sequence in stepper.scheduler.running} <= running:
                assert num_drafts(batch) == sum(ask.num_tokens for ask in drafter.asks)
                tally["drafts"] += num_drafts(batch)
                tally["full pools"] += stepper.pool.num_available == 0
            stepper.finish(batch)
        tally["evictions"] += stepper.pool.num_evictions
        tally["preemptions"] += stepper.scheduler.counters.preemptions
    assert min(tally[edge] for edge in ("drafts", "full pools", "evictions", "preemptions")) > 50, (
        tally
    )
