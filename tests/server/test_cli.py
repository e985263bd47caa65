"""The process of `octavo`, whatever the command."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import piped, started

INTERRUPTED_IMPORT = """
import sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.modules.pop(sys.argv[1], None)
sys.meta_path.insert(0, CtrlC())
from server.cli import run
run()
"""


@pytest.mark.parametrize("module", ["logging", "server.flags"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stderr == "octavo: interrupted\n"
    assert ended.returncode == 128 + signal.SIGINT


def written_to(target: str, *words: str) -> tuple[int, str]:
    """The exit code of `octavo`, and what it says, with its output redirected by a shell."""
    shell = f'exec "$0" -m server "$@" {target}'
    command = ["sh", "-c", shell, sys.executable, *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stderr


def test_a_full_output_is_one_line() -> None:
    said = "octavo: the output cannot be written: No space left on device\n"
    for words in (("service", "print"), ("doctor",), ("bench", "capacity", "--requests=3")):
        assert written_to(">/dev/full", *words) == (1, said)


@pytest.mark.parametrize("target", [">/dev/full", ">&-"])
@pytest.mark.parametrize("bench", ["capacity", "fragmentation"])
def test_a_bench_keeps_its_file_where_its_table_cannot_be_printed(
    tmp_path: Path, bench: str, target: str
) -> None:
    report = tmp_path / "report.json"
    done, said = written_to(target, "bench", bench, "--requests=3", f"--json={report}")
    assert (done, said.count("\n")) == (1, 1)
    assert json.loads(report.read_text(encoding="utf-8"))["trace"]["num_requests"] == 3


def test_a_bench_whose_reader_left_keeps_its_file_and_says_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "server", "bench", "fragmentation", "--requests=3"]
    with started([*command, f"--json={report}"]) as process:
        piped(process.stdout).close()
        assert piped(process.stderr).read() == ""
        assert process.wait() == 0
    assert json.loads(report.read_text(encoding="utf-8"))["trace"]["num_requests"] == 3


def test_a_closed_output_is_one_line() -> None:
    said = "octavo: the standard output is closed\n"
    for words in (("service", "print"), ("top", "--once")):
        assert written_to(">&-", *words) == (1, said)
