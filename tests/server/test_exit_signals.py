"""SIGTERM and SIGHUP end a command as an exception would."""

import os
import signal

import pytest

from server.exit_signals import exit_on_signals
from tests.support.signals import taken


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_what_runs_with_its_code(number: signal.Signals) -> None:
    with taken(number, signal.SIG_DFL):
        with pytest.raises(SystemExit) as ended, exit_on_signals():
            os.kill(os.getpid(), number)
        assert ended.value.code == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL


def test_a_signal_that_was_ignored_stays_so() -> None:
    with taken(signal.SIGHUP, signal.SIG_IGN), exit_on_signals():
        os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
