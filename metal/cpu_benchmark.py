"""Times the CPU kernels against their floors and beside MLX's own operations, in one run.

The floor of a kernel is the larger of its bytes over the measured rate of reading, for a buffer as
large as what the calls touch, and its operations over the measured rate of multiply-adds.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import mlx.core as mx

from metal.cpu_cases import Call, Case, plans
from metal.kernel_cost import Cost
from metal.machine_rates import MachineRates

MAX_CALLS = 64  # in one evaluation: their results are all in memory at once
SECONDS_PER_ROUND = 2e-3  # at least, if MAX_CALLS allow: starting an evaluation costs some 50 us
MAX_SECONDS = 1.0  # after which no further round begins
MLX_SHARE = 8  # MLX's operation gets one in so many calls: it may be a hundred times slower


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Seconds of one call in the fastest round, as the rates are those of the fastest run."""

    name: str
    cost: Cost
    working_set: int
    seconds: float
    mlx_seconds: float

    def floor_seconds(self, rates: MachineRates) -> float:
        reading = self.cost.bytes / rates.read_rate(self.working_set)
        return max(reading, self.cost.flops / rates.flops_per_second)

    def is_bound_by_reading(self, rates: MachineRates) -> bool:
        computing = self.cost.flops / rates.flops_per_second
        return self.cost.bytes / rates.read_rate(self.working_set) >= computing


def time_kernels(only: str = "", rounds: int = 15) -> Iterator[KernelTime]:
    """Every case whose name contains `only`, one after the other, on the CPU."""
    with mx.stream(mx.cpu):
        for plan in plans():
            if only in plan.name:
                yield _time(plan.make(), rounds)


def _time(case: Case, rounds: int) -> KernelTime:
    first = _seconds(case.ours, case.copies, 1)
    calls = max(case.copies, min(MAX_CALLS, int(SECONDS_PER_ROUND / first) + 1))
    return KernelTime(
        name=case.name,
        cost=case.cost,
        working_set=case.working_set,
        seconds=_seconds(case.ours, calls, rounds),
        mlx_seconds=_seconds(case.theirs, max(1, calls // MLX_SHARE), rounds),
    )


def _seconds(call: Call, calls: int, rounds: int) -> float:
    """Of one call in the fastest of at most `rounds` evaluations of `calls` independent ones."""
    mx.eval(call(0))
    times: list[float] = []
    while len(times) < rounds and sum(times) * calls < MAX_SECONDS:
        start = time.perf_counter()
        mx.eval([call(i) for i in range(calls)])
        times.append((time.perf_counter() - start) / calls)
    return min(times)
