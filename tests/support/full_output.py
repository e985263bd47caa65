"""A standard output on which nothing can be written."""

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path


@contextmanager
def full_output() -> Iterator[None]:
    with Path("/dev/full").open("w", encoding="utf-8") as full, redirect_stdout(full):
        yield
