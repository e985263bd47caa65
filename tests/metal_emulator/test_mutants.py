"""The checks are checked: a mistake put into the kernels on purpose must be found."""

from pathlib import Path

import pytest

from tests.metal_emulator.address_space_gate import check_address_spaces
from tests.metal_emulator.bench import Bench, WrongResult
from tests.metal_emulator.emulator import KernelError
from tests.metal_emulator.launch_logic import LaunchLogic, with_instances
from tests.metal_emulator.mutants import MUTANT_CASES, RUN_MUTANTS, TEXT_MUTANTS, Mutant
from tests.metal_emulator.source_rules import check_rules


def _what(mutant: Mutant) -> str:
    return mutant.what


@pytest.mark.parametrize("case", MUTANT_CASES)
def test_the_cases_of_the_mutants_pass_without_them(
    launch_logic: LaunchLogic, source: str, build_folder: Path, case: str
) -> None:
    Bench(launch_logic, source, [MUTANT_CASES[case]], build_folder).check(MUTANT_CASES[case])


@pytest.mark.parametrize("mutant", RUN_MUTANTS, ids=_what)
def test_the_emulator_finds_a_mistake(
    launch_logic: LaunchLogic, source: str, build_folder: Path, mutant: Mutant
) -> None:
    case = MUTANT_CASES[mutant.case]
    bench = Bench(launch_logic, mutant.apply(source), [case], build_folder)
    with pytest.raises((KernelError, WrongResult)):
        bench.check(case)


@pytest.mark.parametrize("mutant", TEXT_MUTANTS, ids=_what)
def test_the_rules_or_the_gate_refuse_a_mistake(
    launch_logic: LaunchLogic, source: str, mutant: Mutant
) -> None:
    plan = launch_logic.plan(MUTANT_CASES[mutant.case])
    text = with_instances(mutant.apply(source), plan.launches)
    assert check_rules(text) or check_address_spaces(text)
