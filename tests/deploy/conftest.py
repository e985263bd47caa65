"""What the tests of deploy/ share: real servers with a tiny model, and a tokenizer for fake ones."""

from pathlib import Path

import pytest

from server.text.tokenizer import Tokenizer
from tests.support.checkpoints import tiny_llama
from tests.support.http_app import tiny_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that writes for minutes, so that a stream ends when a test wants it to."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    return tiny_llama(folder, max_position_embeddings=100_000)
