"""The standard output, and that it may be closed, full, or left by its reader."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class OutputError(Exception):
    """Nothing can be written; the message is one line."""


class ReaderLeft(Exception):
    """Nobody reads on: no fault, and nothing to tell."""


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """For writing: everything is out at the end. Raises ReaderLeft, OutputError."""
    if sys.stdout is None:
        raise OutputError("the standard output is closed")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError as error:
        _forget_the_rest()
        raise ReaderLeft from error
    except OSError as error:
        _forget_the_rest()
        raise OutputError(f"the output cannot be written: {error.strerror}") from error


def _forget_the_rest() -> None:
    """What is still in the buffer must not be written at the end of the process either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
