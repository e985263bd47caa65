"""The kernels that ship, run by the launch logic that ships, against the definition in float64.

Every run checks bounds, races, barriers, SIMD divergence and uninitialised memory, with threads in
order and shuffled; every slot that no query sees holds a NaN.
"""

from collections.abc import Callable, Iterable

import pytest

from tests.metal_emulator.bench import Bench
from tests.metal_emulator.cases import CASES
from tests.metal_emulator.paged_case import Case


@pytest.fixture(scope="module")
def bench(make_bench: Callable[[Iterable[Case]], Bench]) -> Bench:
    return make_bench(CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gives_the_defined_numbers_and_no_report(bench: Bench, name: str) -> None:
    bench.check(CASES[name], seeds=(0, 1, 2))
