"""What OpenAI's API has and this one has not is refused by name, never ignored."""

import httpx
import pytest

from server.api.schemas.unsupported_chat_fields import UnsupportedChatFields
from tests.support.http_app import chat, completion, error_of

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
REFUSED = {
    "audio": {"voice": "alloy", "format": "wav"},
    "function_call": "auto",
    "functions": [{"name": "f"}],
    "metadata": {"a": "b"},
    "modalities": ["text", "audio"],
    "moderation": {},
    "parallel_tool_calls": True,
    "prediction": {"type": "content", "content": "x"},
    "prompt_cache_key": "k",
    "prompt_cache_options": {},
    "prompt_cache_retention": "24h",
    "reasoning_effort": "low",
    "response_format": {"type": "json_object"},
    "safety_identifier": "x",
    "service_tier": "flex",
    "store": True,
    "tool_choice": "required",
    "tools": [TOOL],
    "verbosity": "low",
    "web_search_options": {},
}
ACCEPTED = {
    "functions": [],
    "modalities": ["text"],
    "response_format": {"type": "text"},
    "service_tier": "auto",
    "store": False,
    "tool_choice": "none",
    "tools": [],
}


def test_every_unsupported_field_is_tried() -> None:
    assert set(REFUSED) == set(UnsupportedChatFields.model_fields)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", REFUSED)
async def test_an_unsupported_field_is_refused_by_name(
    client: httpx.AsyncClient, name: str, *, stream: bool
) -> None:
    """Cases G01, G04."""
    body = chat(**{name: REFUSED[name]}, stream=stream)
    response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 400
    error = error_of(response)
    assert (error["param"], error["code"]) == (name, "unsupported_parameter")
    assert name in str(error["message"])


@pytest.mark.parametrize("name", REFUSED)
async def test_an_unsupported_field_may_be_null(client: httpx.AsyncClient, name: str) -> None:
    body = chat(**{name: None}, max_tokens=1)
    assert (await client.post("/v1/chat/completions", json=body)).status_code == 200


@pytest.mark.parametrize("name", ACCEPTED)
async def test_a_value_that_asks_for_nothing_is_accepted(
    client: httpx.AsyncClient, name: str
) -> None:
    body = chat(**{name: ACCEPTED[name]}, max_tokens=1)
    assert (await client.post("/v1/chat/completions", json=body)).status_code == 200


@pytest.mark.parametrize(
    "schema", [{}, True, {"pattern": "("}, {"$ref": "#"}, {"enum": list(range(10_000))}]
)
async def test_no_schema_is_ever_half_obeyed(client: httpx.AsyncClient, schema: object) -> None:
    """Case G02."""
    wanted = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    response = await client.post("/v1/chat/completions", json=chat(response_format=wanted))
    assert (response.status_code, error_of(response)["param"]) == (400, "response_format")


@pytest.mark.parametrize("name", ["suffix", "response_format", "tools", "messages", "foo"])
async def test_completions_refuse_what_they_do_not_have(
    client: httpx.AsyncClient, name: str
) -> None:
    response = await client.post("/v1/completions", json=completion(**{name: "x"}))
    assert (response.status_code, error_of(response)["param"]) == (400, name)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_an_unknown_field_is_refused_by_name(client: httpx.AsyncClient, path: str) -> None:
    body = completion() if path == "/v1/completions" else chat()
    response = await client.post(path, json={**body, "temprature": 1})
    error = error_of(response)
    assert (response.status_code, error["param"]) == (400, "temprature")
    assert error["code"] == "unknown_parameter"
