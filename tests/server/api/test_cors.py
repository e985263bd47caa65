"""Pages of configured origins may call the server; others get no permission. Case F03."""

import httpx
import pytest

from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from tests.support.http_app import MODEL, App, completion, in_memory, make_app

ORIGIN = "https://chat.example"
ALLOW = "access-control-allow-origin"
PATH = "/v1/chat/completions"


@pytest.fixture
def app(tokenizer: Tokenizer) -> App:
    config = ServerConfig(MODEL, api_keys=("key",), cors_origins=(ORIGIN,))
    return make_app(tokenizer, config=config)


async def preflight(client: httpx.AsyncClient, origin: str = ORIGIN) -> httpx.Response:
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
    }
    return await client.options(PATH, headers=asked)


async def test_a_preflight_needs_no_key(app: App) -> None:
    async with in_memory(app) as client:
        response = await preflight(client)
    assert response.status_code == 200
    assert response.headers[ALLOW] == ORIGIN
    assert "POST" in response.headers["access-control-allow-methods"]
    assert "x-stainless-os" in response.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in response.headers


async def test_another_origin_gets_no_permission(app: App) -> None:
    async with in_memory(app) as client:
        assert ALLOW not in (await preflight(client, "https://evil.example")).headers
        headers = {"origin": "https://evil.example", "authorization": "Bearer key"}
        response = await client.post("/v1/completions", json=completion(), headers=headers)
        assert ALLOW not in response.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_answers_and_streams_may_be_read(app: App, *, stream: bool) -> None:
    headers = {"origin": ORIGIN, "authorization": "Bearer key"}
    async with in_memory(app) as client:
        body = completion(stream=stream)
        response = await client.post("/v1/completions", json=body, headers=headers)
    assert response.status_code == 200
    assert response.headers[ALLOW] == ORIGIN
    assert "x-request-id" in response.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize(
    ("prompt", "key", "status"), [("x", "wrong", 401), ("", "key", 400), ("boom", "key", 500)]
)
async def test_errors_may_be_read_too(app: App, prompt: str, key: str, status: int) -> None:
    app.engine.crash("boom", RuntimeError("a fault nobody foresaw"), after=0)
    headers = {"origin": ORIGIN, "authorization": f"Bearer {key}"}
    async with in_memory(app) as client:
        body = completion(prompt)
        response = await client.post("/v1/completions", json=body, headers=headers)
    assert response.status_code == status
    assert response.headers[ALLOW] == ORIGIN


async def test_every_origin_may_be_allowed(tokenizer: Tokenizer) -> None:
    app = make_app(tokenizer, config=ServerConfig(MODEL, cors_origins=("*",)))
    async with in_memory(app) as client:
        response = await preflight(client, "https://any.example")
        assert response.headers[ALLOW] == "*"
        assert "access-control-allow-credentials" not in response.headers


async def test_by_default_no_origin_is_allowed(tokenizer: Tokenizer) -> None:
    async with in_memory(make_app(tokenizer)) as client:
        response = await preflight(client)
        assert response.status_code == 405
        assert ALLOW not in response.headers
        health = await client.get("/health", headers={"origin": ORIGIN})
        assert ALLOW not in health.headers
