"""What the tests of benches share."""

from collections.abc import Iterator

import pytest

from tests.support.checkpoints import tiny_llama
from tests.support.live_server import LiveServer, live_server


@pytest.fixture(scope="session")
def octavo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A tiny Octavo that takes long prompts and drafts."""
    model = tiny_llama(tmp_path_factory.mktemp("octavo") / "tiny", max_position_embeddings=8192)
    flags = ("--threads=1", "--kv-cache-memory=256MiB", "--speculative=ngram")
    with live_server(model, *flags) as server:
        yield server
