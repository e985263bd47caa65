"""README.md tells what is so."""

import re
from pathlib import Path

from tests.support.readme import README, flag_table, table_in

ROOT = Path(__file__).parent.parent
TEXT = README.read_text(encoding="utf-8")


def test_the_table_of_flags_is_that_of_the_code() -> None:
    assert table_in(TEXT) == flag_table(), "make readme writes it anew"


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)\b", TEXT))
    assert named
    assert named <= set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def test_every_file_that_is_linked_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
