"""The test bench: launch logic and emulator together run a case and compare."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tests.metal_emulator.emulator import Emulator
from tests.metal_emulator.launch_logic import LaunchLogic, Plan
from tests.metal_emulator.numbers import decode
from tests.metal_emulator.paged_case import (
    AttentionCase,
    CacheUpdateCase,
    attention_data,
    cache_update_data,
)

Case = AttentionCase | CacheUpdateCase


class WrongResult(Exception):
    """A kernel's numbers are not those of the definition."""


class Bench:
    """A Metal source, compiled with the kernels that the cases need."""

    def __init__(
        self, logic: LaunchLogic, source: str, cases: Iterable[Case], folder: Path
    ) -> None:
        self._logic = logic
        plans = [self.plan(case) for case in cases]
        lines = [launch.instantiation for plan in plans for launch in plan.launches]
        self._emulator = Emulator(source, lines, folder)

    def plan(self, case: Case) -> Plan:
        if isinstance(case, CacheUpdateCase):
            return self._logic.cache_update(case.shape())
        return self._logic.attention(case.shape(), case.scale, case.soft_cap)

    def check(self, case: Case, seeds: Sequence[int] = (0, 1)) -> None:
        """Seed 0 runs threads in order, any other shuffled. Raises KernelError or WrongResult."""
        for seed in seeds:
            if isinstance(case, CacheUpdateCase):
                self._check_cache_update(case, seed)
            else:
                self._check_attention(case, seed)

    def _check_cache_update(self, case: CacheUpdateCase, seed: int) -> None:
        arrays, expected = cache_update_data(case, seed)
        for launch in self.plan(case).launches:
            self._emulator.run(launch, arrays, seed=seed)
        if arrays["pages"].tobytes() != expected.tobytes():
            raise WrongResult(f"pages differ: {case}")

    def _check_attention(self, case: AttentionCase, seed: int) -> None:
        data = attention_data(case, seed)
        plan = self.plan(case)
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
