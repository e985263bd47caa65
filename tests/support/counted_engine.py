"""An engine whose work is counted, step by step, by numbers that are the same on every machine."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypeVar

import mlx.core as mx

from engine.build import engine_limits, kv_shape, warm_up
from engine.config import AttentionKind, EngineConfig
from engine.engine import Engine
from engine.engine_stats import EngineStats
from engine.kv_storage import KVStorage
from engine.model_runner import ModelRunner
from engine.models import CausalLM
from engine.page_pool import PagePool
from engine.request import Request, SamplingParams
from engine.scheduler import Scheduler

T = TypeVar("T")
NUM_PAGES = 64
CONFIG = EngineConfig(kv_cache_bytes=0, max_num_seqs=16)
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")  # calls in some versions of Python alone
OPERATION = re.compile(r'label ="([^"]+)", shape=rectangle')  # in a graph as MLX writes it


@dataclass
class Evaluations:
    """Evaluates, and keeps what each evaluation had to do: MLX operations by their names."""

    graph_file: Path
    operations: list[Counter[str]]

    def __call__(self, arrays: Sequence[mx.array]) -> None:
        mx.export_to_dot(str(self.graph_file), *arrays)
        graph = self.graph_file.read_text(encoding="utf-8")
        self.operations.append(Counter(OPERATION.findall(graph)))
        mx.eval(arrays)


@dataclass(frozen=True)
class StepCount:
    """What one step did. `python_calls` are those of planning and of taking the results."""

    evaluations: tuple[Counter[str], ...]
    copied_bytes: int
    page_copies: int
    python_calls: int

    @property
    def num_operations(self) -> int:
        return sum(operations.total() for operations in self.evaluations)


class CountedEngine:
    def __init__(
        self,
        model: CausalLM,
        graph_file: Path,
        attention: AttentionKind = AttentionKind.PAGED,
    ) -> None:
        self._evaluations = Evaluations(graph_file, [])
        storage = KVStorage(kv_shape(model.spec, CONFIG), NUM_PAGES)
        runner = ModelRunner(model, storage, attention, evaluate=self._evaluations)
        limits = engine_limits(model.spec, CONFIG, NUM_PAGES)
        pool = PagePool(NUM_PAGES, CONFIG.page_size)
        self._engine = Engine(Scheduler(CONFIG, limits, frozenset(), pool), runner)
        warm_up(runner)
        storage.ensure(NUM_PAGES)  # growth is another test's

    def add(self, num_sequences: int, prompt_tokens: int, **sampling: object) -> None:
        """Requests with different prompts, greedy but for `sampling`."""
        params = SamplingParams(**({"max_tokens": 99, "temperature": 0.0} | sampling))  # type: ignore[arg-type]
        for i in range(num_sequences):
            prompt = tuple(range(i, i + prompt_tokens))
            self._engine.add(Request(f"r{i}", prompt, params))

    def step(self) -> StepCount:
        before = self._engine.stats()
        self._evaluations.operations.clear()
        plan_calls, batch = count_calls(self._engine.plan)
        assert batch
        outcome = self._engine.compute(batch)
        finish_calls, _ = count_calls(lambda: self._engine.finish(batch, outcome))
        after = self._engine.stats()
        return StepCount(
            evaluations=tuple(self._evaluations.operations),
            copied_bytes=after.kv_copied.total - before.kv_copied.total,
            page_copies=after.page_copies - before.page_copies,
            python_calls=plan_calls + finish_calls,
        )

    def stats(self) -> EngineStats:
        return self._engine.stats()


def count_calls(work: Callable[[], T]) -> tuple[int, T]:
    """How many Python functions `work` calls, generators resumed included, and what it gives."""
    num_calls = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal num_calls
        num_calls += event == "call" and frame.f_code.co_name not in COMPREHENSIONS

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return num_calls, result
