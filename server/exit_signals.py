"""Signals that end a command as an exception would: what it opened is closed, fetched halves go."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Meanwhile SIGTERM and SIGHUP raise SystemExit; one that was ignored (nohup) stays so."""

    def exit_now(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, exit_now)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
