"""Real servers: one with a tiny model for each module, with the flags the module asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkpoints import tiny_llama
from tests.support.live_server import LiveServer, live_server


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    return tiny_llama(folder, max_position_embeddings=4096)


@pytest.fixture(scope="module")
def server(tiny_model: Path, request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    """`SERVER_FLAGS` of the test's module are added to the command line."""
    flags: tuple[str, ...] = getattr(request.module, "SERVER_FLAGS", ())
    with live_server(tiny_model, *flags) as server:
        yield server
