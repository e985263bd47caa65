"""Where keys are configured, every path but the probes asks for one."""

import pytest

from server.api.api_keys import OPEN_PATHS
from server.config import ServerConfig
from server.contract.operations import OPERATIONS, Operation
from server.text.tokenizer import Tokenizer
from tests.support.http_app import MODEL, App, completion, error_of, in_memory, make_app

KEYS = ("first-key", "zweiter-schlüssel")


@pytest.fixture
def app(tokenizer: Tokenizer) -> App:
    return make_app(tokenizer, config=ServerConfig(MODEL, api_keys=KEYS, debug_endpoints=True))


@pytest.mark.parametrize("key", KEYS)
async def test_each_key_opens(app: App, key: str) -> None:
    headers = {b"authorization": b"Bearer " + key.encode()}
    async with in_memory(app) as client:
        response = await client.post("/v1/completions", json=completion(), headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "first-key",
        "Bearer",
        "Bearer ",
        "Bearer first-key2",
        "Bearer first-ke",
        "Bearer FIRST-KEY",
        "Basic first-key",
        "Bearer first-key zweiter-schlüssel",
        "Bearer " + "x" * 10_000,
    ],
)
async def test_anything_else_is_a_401(app: App, header: str | None) -> None:
    headers = {} if header is None else {b"authorization": header.encode()}
    async with in_memory(app) as client:
        response = await client.post("/v1/completions", json=completion(), headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert error_of(response)["code"] == "invalid_api_key"
    assert app.engine.calls == {}


async def test_the_scheme_may_be_spelled_in_any_case(app: App) -> None:
    async with in_memory(app, authorization="bEARER first-key") as client:
        assert (await client.get("/v1/models")).status_code == 200


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_every_path_is_guarded_as_documented(app: App, operation: Operation) -> None:
    path = operation.path.replace("{model_id}", MODEL).replace("{file}", "main.js")
    async with in_memory(app) as client:
        status = (await client.request(operation.method, path)).status_code
    assert (status == 401) == operation.needs_key
    assert (path in OPEN_PATHS) != operation.needs_key


@pytest.mark.parametrize("path", ["/nope", "/v1/models/", "//health", "/health/"])
async def test_what_does_not_exist_is_guarded_too(app: App, path: str) -> None:
    async with in_memory(app) as client:
        assert (await client.get(f"http://octavo{path}")).status_code == 401


async def test_without_keys_everything_is_open(tokenizer: Tokenizer) -> None:
    headers = {"authorization": "Bearer whatever"}
    async with in_memory(make_app(tokenizer)) as client:
        for given in ({}, headers):
            assert (await client.get("/v1/models", headers=given)).status_code == 200
