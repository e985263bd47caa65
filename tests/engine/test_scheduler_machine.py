"""Random use of the scheduler: whatever happens to the others, each text is its solo text.

Hypothesis looks for short surprising sequences and shrinks what fails; plain random walks cover
long crowded runs. Both run the same way on every machine.
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from engine.request import Request
from tests.support.scheduler_oracle import SchedulerOracle, Setting
from tests.support.stepper import Stepper, make_request
from tests.support.trace import TraceShape, make_trace

EDGES = (
    "aborts while a step runs",
    "evictions",
    "failed steps",
    "page copies",
    "preemptions",
    "prefix hits",
    "refused by a full queue",
    "refused prompts",
    "rollbacks",
    "sequences ended by an error",
)

st_settings = st.builds(
    Setting,
    num_pages=st.integers(1, 14),
    page_size=st.integers(1, 5),
    max_num_seqs=st.integers(4, 8),
    budget=st.integers(1, 16),
    prefix_cache=st.booleans(),
)
st_prompts = st.builds(lambda a, b: [7] * a + [8] * b, st.integers(0, 6), st.integers(1, 6))
st_sampling = st.fixed_dictionaries(
    {},
    optional={
        "ignore_eos": st.just(False),
        "presence_penalty": st.just(0.5),
        "prompt_logprobs": st.just(1),
        "stop_token_ids": st.just(frozenset(range(0, 60, 7))),
    },
)
picks = st.integers(0, 20)


def has_open_step(machine: "SchedulerMachine") -> bool:
    return machine.oracle.open_step is not None


def has_no_open_step(machine: "SchedulerMachine") -> bool:
    return machine.oracle.open_step is None


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self, tally: Counter[str]) -> None:
        super().__init__()
        self.tally = tally
        self.num_requests = 0
        self.oracle = SchedulerOracle(Setting(1, 1, 4, 1, True), tally)

    @initialize(setting=st_settings)
    def begin(self, setting: Setting) -> None:
        self.oracle = SchedulerOracle(setting, self.tally)

    @rule(
        prompt=st_prompts,
        max_tokens=st.integers(0, 9),
        n=st.sampled_from([1, 1, 2, 4]),
        salt=st.sampled_from(["", "other"]),
        sampling=st_sampling,
    )
    def add(
        self, prompt: list[int], max_tokens: int, n: int, salt: str, sampling: dict[str, object]
    ) -> None:
        name = str(self.num_requests)
        self.num_requests += 1
        self.oracle.add(make_request(name, prompt, max_tokens, n=n, salt=salt, **sampling))

    @rule(pick=picks, is_whole=st.booleans())
    def abort(self, pick: int, is_whole: bool) -> None:
        self.oracle.abort(pick, is_whole)

    @precondition(has_no_open_step)
    @rule()
    def plan(self) -> None:
        self.oracle.plan()

    @precondition(has_open_step)
    @rule(failing=st.none() | picks)
    def finish(self, failing: int | None) -> None:
        self.oracle.finish(failing)

    @precondition(has_open_step)
    @rule(is_written=st.booleans())
    def rollback(self, is_written: bool) -> None:
        self.oracle.rollback(is_written)

    @precondition(has_open_step)
    @rule()
    def fail(self) -> None:
        self.oracle.fail()

    @invariant()
    def the_laws_hold(self) -> None:
        self.oracle.check()

    def teardown(self) -> None:
        self.oracle.drain()


def random_setting(dice: random.Random) -> Setting:
    return Setting(
        num_pages=dice.randint(2, 16),
        page_size=dice.randint(1, 5),
        max_num_seqs=dice.randint(4, 8),
        budget=dice.choice((1, 2, 5, 9, 30)),
        prefix_cache=dice.random() < 0.6,
    )


def random_request(dice: random.Random, name: str) -> Request:
    heads = ((7,) * 8, (7, 7, 7, 8, 8, 8, 8, 8), (3, 1, 4, 1, 5, 9, 2, 6))
    prompt = dice.choice(heads)[: dice.randint(0, 8)] + (dice.randrange(2),) * dice.randint(1, 4)
    extras: dict[str, object] = {}
    if dice.random() < 0.2:
        extras["prompt_logprobs"] = 1
    if dice.random() < 0.2:
        extras["frequency_penalty"] = 0.5
    if dice.random() < 0.2:
        extras["min_tokens"] = 1
        extras["stop_token_ids"] = frozenset(range(0, 60, 7))
    return make_request(
        name,
        prompt,
        max_tokens=max(1, dice.randint(-1, 12)) if "min_tokens" in extras else dice.randint(0, 12),
        n=dice.choice((1, 1, 1, 2, 4)),
        salt=dice.choice(("", "", "other")),
        ignore_eos=False,
        **extras,
    )


def walk(seed: int, num_operations: int, tally: Counter[str]) -> None:
    dice = random.Random(seed)
    oracle = SchedulerOracle(random_setting(dice), tally)
    for number in range(num_operations):
        dice.choice(operations(oracle, dice, str(number)))()
        oracle.check()
    oracle.drain()


def operations(oracle: SchedulerOracle, dice: random.Random, name: str) -> list[Callable[[], None]]:
    """What can be done now, the frequent things several times."""
    always = [
        *[lambda: oracle.add(random_request(dice, name))] * 4,
        lambda: oracle.abort(dice.randrange(20), is_whole=dice.random() < 0.5),
    ]
    if not oracle.open_step:
        return [*always, *[oracle.plan] * 15]
    return [
        *always,
        *[lambda: oracle.finish(None)] * 30,
        lambda: oracle.finish(dice.randrange(20)),
        lambda: oracle.rollback(is_written=dice.random() < 0.5),
        lambda: oracle.fail() if dice.random() < 0.3 else oracle.finish(None),
    ]


def test_uses_that_hypothesis_finds_leave_every_text_as_it_is_alone() -> None:
    tally: Counter[str] = Counter()
    limits = settings(
        max_examples=200,
        stateful_step_count=30,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
    )
    run_machine(lambda: SchedulerMachine(tally), settings=limits)
    assert tally["operations"] >= 5_000


def test_random_uses_leave_every_text_as_it_is_alone() -> None:
    tally: Counter[str] = Counter()
    for seed in range(250):
        walk(seed, 150, tally)
    assert tally["operations"] == 37_500
    assert min(tally[edge] for edge in EDGES) >= 50, tally


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("page_size", [1, 2, 3, 4, 5])
def test_crowds_end_in_a_pool_of_one_requests_need(page_size: int, prefix_cache: bool) -> None:
    """The largest request fills the pool to its last slot; the others crowd around it."""
    dice = random.Random(page_size)
    num_pages = -(-20 // page_size)
    setting = Setting(num_pages, page_size, 8, 6, prefix_cache)
    oracle = SchedulerOracle(setting, Counter())
    for number in range(30):
        largest = make_request(f"large{number}", [7] * 8, 99, n=dice.randint(1, 2))
        oracle.add(largest if number % 5 == 0 else random_request(dice, str(number)))
        oracle.check()
        oracle.plan()
        oracle.finish(None)
    oracle.drain()
    assert oracle.tally["preemptions"] > 0


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_no_request_of_a_random_stream_starves_or_gets_another_text(
    seed: int, prefix_cache: bool
) -> None:
    """Case D13; the seed replays the trace. The pool is 1.3 times the largest request's need."""
    shape = TraceShape(max_n=2)
    longest = max(shape.head_lengths) + max(shape.body_lengths) + max(shape.max_tokens)
    num_pages = -(-longest * 13 // 10 // 4)
    stepper = Stepper(num_pages, 4, max_num_seqs=6, budget=24, prefix_cache=prefix_cache)
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
    assert not stepper.live
    assert stepper.pool.num_used == 0
