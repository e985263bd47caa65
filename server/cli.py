"""The command `octavo`: from a command line to an exit code, whatever ends the process."""

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


def run() -> NoReturn:
    """The process's entry. It ends without waiting for a thread whose work nobody needs any more."""
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code of the command, or 130 where Ctrl-C ended it."""
    try:
        with _exit_on_sigterm():
            # The import takes a while, in which Ctrl-C may come as well.
            from server.commands import run_command  # noqa: PLC0415

            return run_command(arguments)
    except KeyboardInterrupt:
        print("octavo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Ends what runs as an exception would, so that half-fetched files and pip go too."""

    def exit_now(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, exit_now)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
