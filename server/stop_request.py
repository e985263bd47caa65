"""Signals that ask the server to stop: the first politely, the second at once."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequest:
    """Set by the first signal. A second one ends the process there and then.

    A hangup that was ignored at the start (nohup) stays so.
    """

    def __init__(self, last_wish: Callable[[], None]) -> None:
        self._last_wish = last_wish
        self._asked = asyncio.Event()
        self._signal: signal.Signals | None = None

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        heard = [number for number in _SIGNALS if not _is_ignored_hangup(number)]
        for number in heard:
            loop.add_signal_handler(number, self._receive, number)
        try:
            yield
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    async def comes_before(self, task: "asyncio.Task[Result]") -> bool:
        """Waits until the task is done, or a signal comes first: then true, and the task goes on."""
        asked = asyncio.create_task(self._asked.wait())
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        return not task.done()

    def exit_at_once(self) -> NoReturn:
        """Ends the process without waiting for any thread, with the code of its signal."""
        self._last_wish()
        logging.shutdown()
        os._exit(128 + (self._signal or signal.SIGTERM))

    def _receive(self, number: signal.Signals) -> None:
        if self._signal is not None:
            log.warning("%s again: stopping at once", number.name)
            self.exit_at_once()
        self._signal = number
        self._asked.set()


def _is_ignored_hangup(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
