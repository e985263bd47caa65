"""Processes that a test starts, and that do not outlive it."""

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from tests.support.signals import taken


@contextmanager
def started(
    command: Sequence[str],
    *,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[str]"]:
    """A running command; killed where the test did not end it.

    A hangup ends it as on a terminal, even where nohup runs the tests.
    """
    with taken(signal.SIGHUP, signal.SIG_DFL):
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, env=env, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def piped(stream: IO[str] | None) -> IO[str]:
    """A stream that was asked for."""
    assert stream is not None
    return stream
