"""A fault at every point of a step: its requests end with an error, everything else goes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import pytest

from engine.build import engine_limits, kv_shape
from engine.engine import Engine
from engine.kv_storage import KVStorage
from engine.model_runner import ModelRunner, Sample
from engine.models import Attend, CausalLM, ModelSpec
from engine.page_pool import PagePool
from engine.page_table import PageCopy
from engine.request import Request, SamplingParams
from engine.sampler import Floats, sample
from engine.scheduler import Scheduler
from engine.step_batch import Draw, Drawn
from engine.token_event import FinishReason
from tests.support.engine_runs import CONFIG, Answers, run, solo

NUM_PAGES = 60
FAULT = "fault"


@dataclass
class Trap:
    """Raises at the `at`-th time that `point` is passed; None: never."""

    point: str
    at: int | None = None
    passed: int = 0

    def __call__(self, point: str) -> None:
        if point != self.point:
            return
        self.passed += 1
        if self.passed == self.at:
            raise MemoryError(FAULT)


class FaultyModel:
    """A model with traps before and after each layer's attention, and before the logits."""

    def __init__(self, model: CausalLM, trap: Trap) -> None:
        self._model = model
        self._trap = trap

    @property
    def spec(self) -> ModelSpec:
        return self._model.spec

    def __call__(self, token_ids: mx.array, positions: mx.array, attend: Attend) -> mx.array:
        def trapped(layer: int, q: mx.array, k: mx.array, v: mx.array, **more: float) -> mx.array:
            self._trap(f"before layer {layer}")
            out = attend(layer, q, k, v, **more)
            self._trap(f"after layer {layer}")
            return out

        return self._model(token_ids, positions, trapped)  # type: ignore[arg-type]

    def logits(self, hidden: mx.array) -> mx.array:
        self._trap("logits")
        return self._model.logits(hidden)


class FaultyStorage(KVStorage):
    def __init__(self, model: CausalLM, trap: Trap) -> None:
        super().__init__(kv_shape(model.spec, CONFIG), NUM_PAGES)
        self._trap = trap

    def ensure(self, num_pages: int) -> None:
        self._trap("growth")
        super().ensure(num_pages)

    def copy_pages(self, copies: Sequence[PageCopy]) -> None:
        if copies:
            self._trap("page copies")
        super().copy_pages(copies)


def faulty_engine(model: CausalLM, trap: Trap, sample_row: Sample = sample) -> Engine:
    limits = engine_limits(model.spec, CONFIG, NUM_PAGES)
    pool = PagePool(NUM_PAGES, CONFIG.page_size)
    scheduler = Scheduler(CONFIG, limits, model.spec.eos_token_ids, pool)
    storage = FaultyStorage(model, trap)
    runner = ModelRunner(FaultyModel(model, trap), storage, CONFIG.attention, sample_row)
    return Engine(scheduler, runner)


def requests(prefix: str) -> list[Request]:
    """Two plain ones that share a head, and one that forks and so copies pages."""
    head = tuple(range(3, 40))
    return [
        Request(f"{prefix}a", (*head, 7), SamplingParams(6, temperature=0, ignore_eos=True)),
        Request(f"{prefix}b", (*head, 9, 9), SamplingParams(5, seed=3, ignore_eos=True)),
        Request(f"{prefix}c", head, SamplingParams(4, seed=8, n=3, ignore_eos=True)),
    ]


def texts(answers: Answers, prefix: str) -> dict[tuple[str, int], list[int]]:
    return {
        (name.removeprefix(prefix), index): answer.tokens
        for (name, index), answer in answers.items()
    }


POINTS = ["growth", "page copies", "before layer 0", "after layer 0", "after layer 1", "logits"]


@pytest.mark.parametrize("point", POINTS)
def test_a_fault_anywhere_in_a_step_ends_its_requests_alone(llama: CausalLM, point: str) -> None:
    wanted: dict[tuple[str, int], list[int]] = {}
    for request in requests(""):
        wanted |= texts(solo(llama, request), "")
    counter = Trap(point)
    run(faulty_engine(llama, counter), requests("x"))
    assert counter.passed > 0
    for at in range(1, counter.passed + 1):
        engine = faulty_engine(llama, Trap(point, at))
        first = run(engine, requests("x"))
        assert FAULT not in str([answer.error for answer in first.values()])
        assert any(answer.finish_reason is FinishReason.ERROR for answer in first.values())
        for key, answer in first.items():
            tokens = wanted[key[0].removeprefix("x"), key[1]]
            assert answer.tokens == tokens[: len(answer.tokens)]
            assert (answer.error is None) == (answer.tokens == tokens)
        assert texts(run(engine, requests("y")), "y") == wanted


def test_a_fault_in_one_rows_sampling_ends_that_sequence_alone(llama: CausalLM) -> None:
    def bad_third_token(logits: Floats, draw: Draw) -> Drawn:
        if draw.sampling.seed == 8 and draw.index == 1 and draw.position == 39:
            raise ValueError(FAULT)
        return sample(logits, draw)

    answers = run(faulty_engine(llama, Trap(""), bad_third_token), requests(""))
    failed = answers.pop(("c", 1))
    assert failed.error == "sampling failed: ValueError"
    assert len(failed.tokens) == 2
    for request in requests(""):
        for key, answer in solo(llama, request).items():
            assert key == ("c", 1) or answers[key].tokens == answer.tokens


class NotANumber(FaultyModel):
    """Gives one row of logits, the second of each step, that holds a NaN."""

    def logits(self, hidden: mx.array) -> mx.array:
        logits = super().logits(hidden)
        if len(logits) < 2:
            return logits
        row = mx.arange(len(logits))[:, None] == 1
        column = mx.arange(logits.shape[1])[None] == 5
        return mx.where(row & column, mx.nan, logits)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_end_their_sequence_alone(
    llama: CausalLM, temperature: float
) -> None:
    limits = engine_limits(llama.spec, CONFIG, NUM_PAGES)
    pool = PagePool(NUM_PAGES, CONFIG.page_size)
    scheduler = Scheduler(CONFIG, limits, llama.spec.eos_token_ids, pool)
    trap = Trap("")
    runner = ModelRunner(NotANumber(llama, trap), FaultyStorage(llama, trap), CONFIG.attention)
    sampling = SamplingParams(3, temperature=temperature, ignore_eos=True)
    pair = [Request(name, (1, 2, 3), sampling) for name in ("a", "b")]
    answers = run(Engine(scheduler, runner), pair)
    assert answers["b", 0].error == "the model's logits are not finite"
    assert answers["a", 0] == solo(llama, pair[0])["a", 0]


def test_a_step_that_is_rolled_back_can_be_planned_again(llama: CausalLM) -> None:
    limits = engine_limits(llama.spec, CONFIG, NUM_PAGES)
    pool = PagePool(NUM_PAGES, CONFIG.page_size)
    scheduler = Scheduler(CONFIG, limits, llama.spec.eos_token_ids, pool)
    for request in requests(""):
        scheduler.add(request)
    plan: Callable[[], object] = scheduler.schedule
    before = repr(pool)
    first = plan()
    assert repr(pool) != before
    scheduler.rollback()
    scheduler.check()
    assert repr(pool) == before
    assert plan() == first
