"""The test bench: launch logic and emulator together run a case and compare."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tests.metal_emulator.emulator import Emulator
from tests.metal_emulator.launch_logic import LaunchLogic, with_instances
from tests.metal_emulator.numbers import decode
from tests.metal_emulator.paged_case import (
    AttentionCase,
    CacheUpdateCase,
    Case,
    attention_data,
    cache_update_data,
)


class WrongResult(Exception):
    """A kernel's numbers are not those of the definition."""


class Bench:
    """A Metal source, compiled with the kernels that the cases need."""

    def __init__(
        self, logic: LaunchLogic, source: str, cases: Iterable[Case], folder: Path
    ) -> None:
        self._logic = logic
        launches = [launch for case in cases for launch in logic.plan(case).launches]
        self._emulator = Emulator(with_instances(source, launches), folder)

    def check(self, case: Case, seeds: Sequence[int] = (0, 1)) -> None:
        """Seed 0 runs threads in order, any other shuffled. Raises KernelError or WrongResult."""
        for seed in seeds:
            if isinstance(case, CacheUpdateCase):
                self._check_cache_update(case, seed)
            else:
                self._check_attention(case, seed)

    def _check_cache_update(self, case: CacheUpdateCase, seed: int) -> None:
        arrays, expected = cache_update_data(case, seed)
        for launch in self._logic.plan(case).launches:
            self._emulator.run(launch, arrays, seed=seed)
        if arrays["pages"].tobytes() != expected.tobytes():
            raise WrongResult(f"pages differ: {case}")

    def _check_attention(self, case: AttentionCase, seed: int) -> None:
        data = attention_data(case, seed)
        plan = self._logic.plan(case)
        partials = np.full(plan.partial_floats, np.nan, np.float32)
        arrays = {**data.arrays, "partials": partials}
        writes_out = [
            i for i, launch in enumerate(plan.launches) if ("out", True) in launch.arguments
        ]
        alone = writes_out[0] if len(writes_out) == 1 else None
        for i, launch in enumerate(plan.launches):
            whole = frozenset({"out"} if i == alone else ())
            self._emulator.run(launch, arrays, seed=seed, undefined=whole, all_written=whole)
        result = decode(arrays["out"], case.q_type)
        tolerance = case.q_type.tolerance
        if not np.allclose(result, data.expected, atol=tolerance, rtol=tolerance):
            raise WrongResult(f"largest difference {np.abs(result - data.expected).max()}: {case}")
