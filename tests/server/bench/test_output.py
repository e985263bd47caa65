"""Where the texts and files of a bench go when one of them cannot be written."""

from pathlib import Path

import pytest

from server.bench.output import telling, write_json
from server.standard_output import OutputError
from tests.support.full_output import full_output


def bench(report: Path) -> None:
    with telling() as tell:
        tell("one")
        tell("two")
        write_json(report, [1])


def test_texts_come_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    with telling() as tell:
        tell("one")
        assert capsys.readouterr().out == "one\n"
        tell("two")
    assert capsys.readouterr().out == "two\n"


def test_files_are_written_before_a_full_output_is_told_of(tmp_path: Path) -> None:
    with full_output(), pytest.raises(OutputError, match="No space left"):
        bench(tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "[\n 1\n]\n"


def test_a_file_that_cannot_be_written_either_is_told_of_first(tmp_path: Path) -> None:
    with full_output(), pytest.raises(OutputError, match="Is a directory"):
        bench(tmp_path)


def test_a_bench_without_files_ends_where_nothing_can_be_printed() -> None:
    refused = pytest.raises(OutputError, match="No space left")
    with full_output(), telling(to_the_end=False) as tell, refused:
        tell("one")
