"""The tests of pool, table and index notice wrong code, not only right code."""

import json
import subprocess
import sys

import pytest

from tests.mutation.hand_made import HAND_MADE
from tests.mutation.runner import Summary, all_mutants

PITFALLS = [f"s{number:02}" for number in range(1, 14)]


@pytest.fixture(scope="module")
def summary() -> Summary:
    """Of every mutant, tried in a process that forks one for each."""
    command = [sys.executable, "-m", "tests.mutation"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode in {0, 1}, run.stderr
    return Summary(**json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_every_pitfall_of_the_second_seed_is_among_the_hand_made(pitfall: str) -> None:
    assert any(mutant.name.startswith(pitfall) for mutant in HAND_MADE)


def test_every_hand_made_mutant_is_caught(summary: Summary) -> None:
    assert not {mutant.name for mutant in HAND_MADE} & {*summary.survivors}


def test_whatever_survives_is_known_to_change_nothing(summary: Summary) -> None:
    assert summary.survivors == []


def test_whatever_is_said_to_change_nothing_survives(summary: Summary) -> None:
    assert summary.no_survivors == []


def test_nine_of_ten_mutants_are_caught(summary: Summary) -> None:
    assert summary.num_mutants == len(all_mutants()) >= 400
    assert summary.num_caught >= 0.9 * summary.num_mutants
