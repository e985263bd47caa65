"""How this process takes a signal while a test runs, whatever whoever runs the tests had set."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def taken(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
