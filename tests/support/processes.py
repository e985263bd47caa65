"""Processes that a test starts, and that do not outlive it."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO


@contextmanager
def started(
    command: Sequence[str],
    *,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[str]"]:
    """A running command; killed where the test did not end it."""
    with subprocess.Popen(command, stdout=stdout, stderr=stderr, env=env, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def piped(stream: IO[str] | None) -> IO[str]:
    """A stream that was asked for."""
    assert stream is not None
    return stream
