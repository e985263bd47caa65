"""Programs of the system that tests run for real: Debian's packages bring them.

A test whose part is missing is skipped, and says which package has it. Where OCTAVO_REAL_PARTS is
`required`, as in the gate, it fails instead, so that no gap stays hidden.
"""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

REQUIRED = "OCTAVO_REAL_PARTS"
SBIN = ("/usr/sbin", "/sbin")  # not on every user's PATH


def program(name: str, package: str) -> str:
    """The path of a program."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])
    return shutil.which(name, path=path) or _missing(name, package)


def part(path: Path, package: str) -> Path:
    """A file that a package brings."""
    return path if path.exists() else _missing(str(path), package)


def _missing(what: str, package: str) -> NoReturn:
    reason = f"{what} is missing: apt install {package}, or make deploy-tools"
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(reason)
    pytest.skip(reason)
