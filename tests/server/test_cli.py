"""The process of `octavo`, whatever the command."""

import signal
import subprocess
import sys

INTERRUPTED_IMPORT = """
import sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "server.flags":
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
from server.cli import run
run()
"""


def test_ctrl_c_while_modules_are_imported_is_one_line() -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, "serve"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stderr == "octavo: interrupted\n"
    assert ended.returncode == 128 + signal.SIGINT
