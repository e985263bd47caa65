"""Random operations on pool, tables and prefix index, against plain lists.

Hypothesis looks for short surprising sequences and shrinks what fails; a plain random walk covers
the long middle, where pools are full and texts are shared. Both run the same way on every machine.
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from tests.support.pages_oracle import PagesOracle

EDGES = (
    "adopted pages",
    "deduplicated pages",
    "evictions",
    "page copies",
    "refusals by OutOfPages",
    "refusals by PageNotHeld",
    "refusals by ValueError",
    "undone copies",
)

picks = st.integers(0, 9)
salts = st.sampled_from(["", "other"])
texts = st.builds(lambda a, b: [0] * a + [1] * b, st.integers(0, 4), st.integers(1, 3))


def has_holders(machine: "PagesMachine") -> bool:
    return bool(machine.oracle.holders)


class PagesMachine(RuleBasedStateMachine):
    def __init__(self, tally: Counter[str]) -> None:
        super().__init__()
        self.tally = tally
        self.oracle = PagesOracle(1, 1, tally)

    @initialize(num_pages=st.integers(1, 16), page_size=st.integers(1, 5))
    def make_pool(self, num_pages: int, page_size: int) -> None:
        self.oracle = PagesOracle(num_pages, page_size, self.tally)

    @rule(salt=salts, text=texts, is_warm=st.booleans())
    def begin(self, salt: str, text: list[int], is_warm: bool) -> None:
        self.oracle.begin(salt, text, is_warm)

    @precondition(has_holders)
    @rule(pick=picks, tokens=texts, is_registered=st.booleans())
    def append(self, pick: int, tokens: list[int], is_registered: bool) -> None:
        self.oracle.append(pick, tokens, is_registered)

    @precondition(has_holders)
    @rule(pick=picks, tokens=texts, is_kept=st.booleans())
    def step(self, pick: int, tokens: list[int], is_kept: bool) -> None:
        self.oracle.step(pick, tokens, is_kept)

    @precondition(has_holders)
    @rule(pick=picks, more=texts)
    def adopt(self, pick: int, more: list[int]) -> None:
        self.oracle.adopt(pick, more)

    @precondition(has_holders)
    @rule(pick=picks)
    def fork(self, pick: int) -> None:
        self.oracle.fork(pick)

    @precondition(has_holders)
    @rule(pick=picks, num_tokens=st.integers(-1, 12))
    def rewind(self, pick: int, num_tokens: int) -> None:
        self.oracle.rewind(pick, num_tokens)

    @precondition(has_holders)
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        self.oracle.release(pick)

    @precondition(has_holders)
    @rule(pick=picks)
    def register(self, pick: int) -> None:
        self.oracle.register(pick)

    @rule(count=st.integers(1, 11))
    def take_and_return(self, count: int) -> None:
        self.oracle.take_and_return(count)

    @rule(page=st.integers(-1, 10))
    def misuse(self, page: int) -> None:
        self.oracle.misuse(page)

    @rule(salt=salts, text=texts)
    def lookup(self, salt: str, text: list[int]) -> None:
        self.oracle.lookup(salt, text)

    @invariant()
    def the_laws_hold(self) -> None:
        self.oracle.check()

    def teardown(self) -> None:
        self.oracle.finish()


def operations(oracle: PagesOracle, dice: random.Random) -> list[Callable[[], None]]:
    """Every operation once, with arguments thrown by `dice`; the frequent ones several times."""

    def text() -> list[int]:
        return [0] * dice.randrange(5) + [1] * dice.randint(1, 3)

    def salt() -> str:
        return dice.choice(("", "", "other"))

    def toss() -> bool:
        return dice.random() < 0.5

    pick = dice.randrange(10)
    always = [
        *[lambda: oracle.begin(salt(), text(), is_warm=toss())] * 3,
        lambda: oracle.take_and_return(dice.randint(1, 11)),
        lambda: oracle.misuse(dice.randint(-1, 10)),
        lambda: oracle.lookup(salt(), text()),
    ]
    if not oracle.holders:
        return always
    return [
        *always,
        *[lambda: oracle.append(pick, text(), is_registered=toss())] * 2,
        *[lambda: oracle.append(pick, [dice.randrange(2)], is_registered=toss())] * 2,
        *[lambda: oracle.step(pick, [dice.randrange(2)] * dice.randint(1, 3), is_kept=toss())] * 3,
        *[lambda: oracle.fork(pick)] * 3,
        *[lambda: oracle.rewind(pick, dice.randint(-1, 12))] * 2,
        *[lambda: oracle.release(pick)] * 3,
        lambda: oracle.adopt(pick, text()),
        lambda: oracle.register(pick),
    ]


def walk(seed: int, num_operations: int, tally: Counter[str]) -> None:
    dice = random.Random(seed)
    oracle = PagesOracle(dice.randint(1, 16), dice.randint(1, 5), tally)
    for _ in range(num_operations):
        dice.choice(operations(oracle, dice))()
        oracle.check()
    oracle.finish()


def test_operations_that_hypothesis_finds_equal_plain_lists() -> None:
    tally: Counter[str] = Counter()
    limits = settings(
        max_examples=400,
        stateful_step_count=30,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
    )
    run_machine(lambda: PagesMachine(tally), settings=limits)
    assert tally["operations"] >= 10_000


def test_thirty_thousand_random_operations_equal_plain_lists() -> None:
    """Case D05: three hundred walks of a hundred operations, and every edge among them."""
    tally: Counter[str] = Counter()
    for seed in range(300):
        walk(seed, 100, tally)
    assert tally["operations"] == 30_000
    assert min(tally[edge] for edge in EDGES) >= 100, tally


@pytest.mark.parametrize("page_size", [1, 2, 5])
def test_a_pool_of_one_page_keeps_the_laws(page_size: int) -> None:
    tally: Counter[str] = Counter()
    dice = random.Random(page_size)
    oracle = PagesOracle(1, page_size, tally)
    for _ in range(200):
        dice.choice(operations(oracle, dice))()
        oracle.check()
    oracle.finish()
    assert tally["evictions"] > 0
