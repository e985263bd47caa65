"""The tables of tests/README.md name tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = re.findall(
    r"(tests/\S+\.py)::(\w+)", (ROOT / "tests/README.md").read_text(encoding="utf-8")
)


def test_the_tables_name_tests() -> None:
    assert len(NAMED) > 50


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.M)
