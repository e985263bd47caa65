"""Fixtures of the HTTP side: one small real tokenizer, and apps around fake engines."""

from collections.abc import AsyncIterator

import httpx
import pytest

from server.text.tokenizer import Tokenizer
from tests.support.http_app import App, in_memory, make_app, tiny_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def app(tokenizer: Tokenizer) -> App:
    return make_app(tokenizer)


@pytest.fixture
async def client(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with in_memory(app) as client:
        yield client
