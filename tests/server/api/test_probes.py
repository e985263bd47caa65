"""Health, liveness, version, models, tokens and the page view."""

import httpx
import pytest

from engine.engine_stats import EngineStatus
from server.api.app import active_requests
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from tests.support.http_app import MODEL, App, chat, completion, error_of, in_memory, make_app

RED = {
    EngineStatus.STARTING: "overloaded",
    EngineStatus.DRAINING: "overloaded",
    EngineStatus.DEAD: "engine_dead",
}


async def test_health_is_green_when_a_request_can_be_served(client: httpx.AsyncClient) -> None:
    response = await client.get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "ready"})


@pytest.mark.parametrize("status", RED)
async def test_health_is_red_otherwise_but_the_process_lives(
    client: httpx.AsyncClient, app: App, status: EngineStatus
) -> None:
    app.engine.status = status
    response = await client.get("/health")
    assert response.status_code == 503
    assert error_of(response)["code"] == RED[status]
    assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize("status", RED)
async def test_work_is_refused_while_health_is_red(
    client: httpx.AsyncClient, app: App, status: EngineStatus
) -> None:
    app.engine.status = status
    for stream in (False, True):
        response = await client.post("/v1/completions", json=completion(stream=stream))
        assert response.status_code == 503
        assert error_of(response)["code"] == RED[status]
        assert ("retry-after" in response.headers) == (status is not EngineStatus.DEAD)


async def test_health_turns_red_when_new_requests_are_refused(
    client: httpx.AsyncClient, app: App
) -> None:
    active_requests(app.asgi).refuse_new()
    assert (await client.get("/health")).status_code == 503


async def test_the_version_is_told(client: httpx.AsyncClient) -> None:
    assert set((await client.get("/version")).json()) == {"version"}


async def test_the_served_model_is_listed(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/v1/models")).json()
    assert listed["object"] == "list"
    (card,) = listed["data"]
    assert card["id"] == MODEL
    assert card["max_model_len"] == 512


@pytest.mark.parametrize("name", ["tiny/fake-model", "tiny%2Ffake-model"])
async def test_a_model_is_found_by_its_id_raw_or_encoded(
    client: httpx.AsyncClient, name: str
) -> None:
    """Case A17."""
    assert (await client.get(f"/v1/models/{name}")).json()["id"] == MODEL


@pytest.mark.parametrize("name", ["gpt-4o", "tiny", "..%2F..%2Fetc", "a/b/c"])
async def test_another_model_is_not_found(client: httpx.AsyncClient, name: str) -> None:
    response = await client.get(f"/v1/models/{name}")
    assert response.status_code == 404
    assert error_of(response)["code"] == "model_not_found"


async def test_a_prompt_is_tokenised_as_a_completion_would_be(
    client: httpx.AsyncClient, app: App
) -> None:
    text = "the quick 😀"
    body = {"model": MODEL, "prompt": text, "return_token_strs": True}
    told = (await client.post("/tokenize", json=body)).json()
    await client.post("/v1/completions", json=completion(text))
    (call,) = app.engine.calls.values()
    assert tuple(told["tokens"]) == call.request.prompt_token_ids
    assert told["count"] == len(told["tokens"]) == len(told["token_strs"])
    assert told["max_model_len"] == 512
    assert told["token_strs"][3] == " quick"


async def test_messages_are_tokenised_as_a_chat_would_be(
    client: httpx.AsyncClient, app: App
) -> None:
    body = chat("Hi")
    told = await client.post("/tokenize", json={"model": MODEL, "messages": body["messages"]})
    await client.post("/v1/chat/completions", json=body)
    (call,) = app.engine.calls.values()
    assert tuple(told.json()["tokens"]) == call.request.prompt_token_ids
    assert told.json()["token_strs"] is None


@pytest.mark.parametrize("fields", [{}, {"prompt": "a", "messages": chat()["messages"]}])
async def test_exactly_one_thing_is_tokenised(
    client: httpx.AsyncClient, fields: dict[str, object]
) -> None:
    response = await client.post("/tokenize", json={"model": MODEL, **fields})
    assert response.status_code == 400


async def test_special_tokens_are_tokenised_as_asked(client: httpx.AsyncClient) -> None:
    body = {"model": MODEL, "prompt": "<|im_end|>"}
    assert (await client.post("/tokenize", json=body)).json()["count"] == len("<|im_end|>")
    parsed = await client.post("/tokenize", json={**body, "parse_special_tokens": True})
    assert parsed.json()["tokens"] == [2]


@pytest.mark.parametrize("text", ["", "hello world", " leading", "日本語 😀", "a\n\n b"])
async def test_text_survives_the_way_there_and_back(client: httpx.AsyncClient, text: str) -> None:
    told = (await client.post("/tokenize", json={"model": MODEL, "prompt": text})).json()
    body = {"model": MODEL, "tokens": told["tokens"]}
    assert (await client.post("/detokenize", json=body)).json() == {"prompt": text}


async def test_special_tokens_are_written_out_unless_skipped(client: httpx.AsyncClient) -> None:
    body = {"model": MODEL, "tokens": [1, 2]}
    assert (await client.post("/detokenize", json=body)).json()["prompt"] == (
        "<|im_start|><|im_end|>"
    )
    skipped = await client.post("/detokenize", json={**body, "skip_special_tokens": True})
    assert skipped.json()["prompt"] == ""


async def test_ids_beyond_the_vocabulary_are_no_text(client: httpx.AsyncClient) -> None:
    response = await client.post("/detokenize", json={"model": MODEL, "tokens": [5, 10**6]})
    assert (response.status_code, error_of(response)["param"]) == (400, "tokens")


async def test_the_page_view_exists_only_where_asked_for(
    client: httpx.AsyncClient, tokenizer: Tokenizer
) -> None:
    assert (await client.get("/debug/pages")).status_code == 404
    app = make_app(tokenizer, config=ServerConfig(MODEL, debug_endpoints=True))
    async with in_memory(app) as open_client:
        pool = (await open_client.get("/debug/pages")).json()
        assert pool == {"page_size": 16, "num_pages": 9, "num_untouched": 9, "pages": []}
