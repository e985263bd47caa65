"""The process of `octavo`, whatever the command."""

import signal
import subprocess
import sys

import pytest

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
    for words in (("service", "print"), ("doctor",)):
        assert written_to(">/dev/full", *words) == (1, said)


def test_a_closed_output_is_one_line() -> None:
    said = "octavo: the standard output is closed\n"
    for words in (("service", "print"), ("top", "--once")):
        assert written_to(">&-", *words) == (1, said)
