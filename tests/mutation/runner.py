"""Runs the fast tests against every mutant.

The tests are collected once. Each mutant gets a forked process of its own, in which the code of
the changed functions takes the place of the right one, and the tests run until the first failure.
"""

import gc
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import CodeType, FunctionType, ModuleType

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.hand_made import (
    ADAPTER,
    DEVICE,
    HAND_MADE,
    INDEX,
    PAGES,
    POOL,
    TABLE,
    source_of,
)
from tests.mutation.operators import Mutant, systematic_mutants

SECONDS_PER_MUTANT = 60  # a mutant that hangs is caught
PYTEST_OPTIONS = (
    *("-q", "--noconftest", "-p", "no:cacheprovider", "-k", "not random_ops"),
    *("--assert=plain", "--tb=native"),  # nobody reads why a mutant failed
)
UNIT_TESTS = {
    POOL: "tests/engine/test_page_pool.py",
    TABLE: "tests/engine/test_page_table.py",
    INDEX: "tests/engine/test_prefix_index.py",
}
SEED_TESTS = "tests/engine/seeds/test_second_seed.py"
SEED_TEST_OF = {PAGES: "numpy", ADAPTER: "numpy", DEVICE: "device"}


@dataclass(frozen=True, slots=True)
class Summary:
    """`survivors` are not known to change nothing; `no_survivors` are said to, and were caught."""

    num_mutants: int
    num_caught: int
    survivors: list[str]
    no_survivors: list[str]


@dataclass(slots=True)
class MutationRun:
    """A pytest plugin whose run loop tries the mutants instead of running the tests once."""

    mutants: Sequence[Mutant]
    survivors: list[str] = field(default_factory=list)  # by name

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if not _pass(session.items):
            raise pytest.UsageError("the tests fail without any mutant")
        gc.freeze()  # or each child copies what its collector touches
        running: dict[int, Mutant] = {}
        for mutant in self.mutants:
            while len(running) >= (os.cpu_count() or 1):
                self._reap(running)
            running[_start(mutant, _chosen(session.items, mutant))] = mutant
        while running:
            self._reap(running)
        gc.unfreeze()  # plugins that end now ask the collector who refers to what
        return True

    def _reap(self, running: dict[int, Mutant]) -> None:
        process, status = os.wait()
        mutant = running.pop(process)
        if status == 0:
            self.survivors.append(mutant.name)


def _start(mutant: Mutant, items: list[pytest.Item]) -> int:
    process = os.fork()
    if process:
        return process
    is_caught = False
    try:
        signal.alarm(SECONDS_PER_MUTANT)
        module = import_module(mutant.module)
        _transplant(compile(mutant.source, module.__file__ or "", "exec"), module)
        is_caught = not _pass(items)
    finally:  # whatever goes wrong here shows as a survivor
        os._exit(1 if is_caught else 0)


def _pass(items: Sequence[pytest.Item]) -> bool:
    """Run tests until the first one that fails."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        reports = runtestprotocol(item, log=False, nextitem=following)
        if any(report.failed for report in reports):
            return False
    return True


def _chosen(items: list[pytest.Item], mutant: Mutant) -> list[pytest.Item]:
    """The tests that may catch it, those of the module itself first."""
    if mutant.module in SEED_TEST_OF:
        return [item for item in items if SEED_TEST_OF[mutant.module] in item.name]
    own = UNIT_TESTS[mutant.module]
    units = [item for item in items if SEED_TESTS not in item.nodeid]
    return sorted(units, key=lambda item: own not in item.nodeid)


def _transplant(code: CodeType, module: ModuleType) -> None:
    """Give every function of the module the code of the same name in `code`."""
    codes = {inner.co_qualname: inner for inner in _inner_codes(code)}
    for function in _functions(module):
        function.__code__ = codes[function.__code__.co_qualname]


def _inner_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner_codes(constant)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    owned = [value for value in vars(module).values() if _is_owned(value, module)]
    members = [
        member for owner in owned if isinstance(owner, type) for member in vars(owner).values()
    ]
    for value in [*owned, *members]:
        function = value.fget if isinstance(value, property) else value
        if isinstance(function, FunctionType) and function.__code__.co_filename == module.__file__:
            yield function


def _is_owned(value: object, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def all_mutants() -> list[Mutant]:
    systematic = [
        mutant for module in UNIT_TESTS for mutant in systematic_mutants(module, source_of(module))
    ]
    return [*[hand_made.mutant() for hand_made in HAND_MADE], *systematic]


def run_mutants() -> Summary | None:
    """None where the tests could not be run or fail without any mutant."""
    mutants = all_mutants()
    run = MutationRun(mutants)
    if pytest.main([*PYTEST_OPTIONS, *UNIT_TESTS.values(), SEED_TESTS], plugins=[run]):
        return None
    return Summary(
        num_mutants=len(mutants),
        num_caught=len(mutants) - len(run.survivors),
        survivors=sorted(name for name in run.survivors if name not in EQUIVALENT),
        no_survivors=sorted(name for name in EQUIVALENT if name not in run.survivors),
    )
