"""Tiny models for the engine's tests, loaded once."""

from pathlib import Path

import pytest

from engine.models import CausalLM, load_model
from tests.support.checkpoints import tiny_llama, tiny_qwen3


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    folder: Path = tmp_path_factory.mktemp("llama")
    return load_model(tiny_llama(folder)).model


@pytest.fixture(scope="session")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    folder: Path = tmp_path_factory.mktemp("qwen3")
    return load_model(tiny_qwen3(folder, tied=False)).model
