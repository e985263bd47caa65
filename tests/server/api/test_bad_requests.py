"""Wrong requests get a 400 in the envelope, and a right one after them is answered."""

import json

import httpx
import pytest

from tests.support.http_app import MODEL, App, chat, completion, error_of

JSON = {"content-type": "application/json"}
PATHS = ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize")
DEEP = 100_000

BODIES = {
    "nothing": b"",
    "half": b"{",
    "a list": b"[]",
    "null": b"null",
    "a number": b"123",
    "a text": b'"x"',
    "no UTF-8": b'{"model": "\xff\xfe"}',
    "UTF-16": '{"model": "x"}'.encode("utf-16"),
    "a key twice": b'{"model": "a", "model": "b"}',
    "an inner key twice": b'{"model": "a", "logit_bias": {"1": 1, "1": 2}}',
    "NaN": b'{"model": "a", "temperature": NaN}',
    "Infinity": b'{"model": "a", "temperature": -Infinity}',
    "a float out of range": b'{"model": "a", "temperature": 1e999}',
    "an integer of many digits": b'{"model": "a", "seed": ' + b"9" * 5000 + b"}",
    "a lone surrogate": rb'{"model": "\ud800"}',
    "a lone surrogate in a key": rb'{"\udfff": 1}',
    "a trailing comma": b'{"model": "a",}',
    "two values": b"{} {}",
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep lists in a field": b'{"prompt": ' + b"[" * 99 + b"]" * 99 + b"}",
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "a control character": b'{"model": "a\x01"}',
    "nothing in it": b"{}",
}

LONE = {"prompt": "\ud800", "stop": "\udc00", "user": "\ud83d"}

FIELDS = {
    "temperature": ["hot", -0.1, 2.1, True, [], 10**400],
    "top_p": [0, -1, 1.5, 2, "1", True],
    "top_k": [-2, 1.5, "3", True, 2**40],
    "min_p": [-0.1, 1.1],
    "seed": [1.5, "7", True, 2**70],
    "n": [0, -1, 129, 1.5, True, "1"],
    "max_tokens": [-1, 1.5, "5", True, 10**30],
    "min_tokens": [-1, 17],
    "stop_token_ids": [[-1], [10**6], ["a"], [True], list(range(65)), "5"],
    "presence_penalty": [-2.1, 2.1, "x"],
    "frequency_penalty": [-2.1, 2.1],
    "repetition_penalty": [0, -1, 11],
    "stream": ["true", 1, "yes"],
    "echo": [1, "true"],
    "ignore_eos": [0],
    "user": [5, "x" * 513],
    "stream_options": [{"include_usage": 1}, {"foo": True}, [], "x"],
}
BIASES = [
    {"99999999": 5},
    {"-1": 1},
    {"x": 1},
    {"1.5": 1},
    {"٣": 1},
    {"": 1},
    {"5": None},
    {"5": True},
    {"5": "1"},
    {"5": 101},
    {"5": -100.5},
    {"1" * 40: 1},
    {"05": 1, "5": 2},
    {"00": 1},
    [5],
    "x",
]
PROMPTS = [
    None,
    "",
    [""],
    [],
    [[]],
    [[5], []],
    5,
    True,
    {},
    [None],
    [5, "a"],
    ["a", 5],
    ["a", [5]],
    [5.5],
    [-1],
    [True],
    [[5], ["a"]],
    [10**6],
    ["a"] * 257,
]


async def post(client: httpx.AsyncClient, path: str, body: bytes) -> httpx.Response:
    return await client.post(path, content=body, headers=JSON)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_that_is_no_request_is_refused(
    client: httpx.AsyncClient, path: str, body: bytes
) -> None:
    """Cases B10 and F06."""
    response = await post(client, path, body)
    assert response.status_code == 400
    error = error_of(response)
    assert error["type"] == "invalid_request_error"
    assert "Error" not in str(error["message"])
    assert (await client.get("/health")).status_code == 200


@pytest.mark.parametrize("field", LONE)
async def test_a_lone_surrogate_is_refused_wherever_it_stands(
    client: httpx.AsyncClient, field: str
) -> None:
    body = json.dumps({**completion(), field: LONE[field]}).encode()
    assert (await post(client, "/v1/completions", body)).status_code == 400


async def test_a_pair_of_surrogates_is_a_character(client: httpx.AsyncClient, app: App) -> None:
    """Case B10."""
    await post(client, "/v1/completions", json.dumps(completion("😀")).encode())
    (call,) = app.engine.calls.values()
    assert app.tokenizer.decode(call.request.prompt_token_ids, skip_special=True) == "😀"


async def test_a_nul_is_a_character(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/completions", json=completion("a\0b"))).status_code == 200


@pytest.mark.parametrize(
    ("field", "value"), [(name, value) for name, values in FIELDS.items() for value in values]
)
async def test_an_unfit_value_is_refused_by_the_fields_name(
    client: httpx.AsyncClient, app: App, field: str, value: object
) -> None:
    response = await client.post("/v1/completions", json=completion(**{field: value}))
    assert response.status_code == 400
    error = error_of(response)
    assert str(error["param"]).startswith(field)
    assert field in str(error["message"])
    assert app.engine.live == []


@pytest.mark.parametrize("bias", BIASES)
async def test_an_unfit_logit_bias_is_refused(client: httpx.AsyncClient, bias: object) -> None:
    """Case A15."""
    response = await client.post("/v1/completions", json=completion(logit_bias=bias))
    assert response.status_code == 400
    assert str(error_of(response)["param"]).startswith("logit_bias")


@pytest.mark.parametrize("prompt", PROMPTS, ids=repr)
async def test_an_unfit_prompt_is_refused_and_the_next_is_answered(
    client: httpx.AsyncClient, app: App, prompt: object
) -> None:
    """Case A11."""
    response = await client.post("/v1/completions", json=completion(prompt))
    assert response.status_code == 400
    assert str(error_of(response)["param"]).startswith("prompt")
    assert app.engine.live == []
    assert (await client.post("/v1/completions", json=completion())).status_code == 200


@pytest.mark.parametrize("messages", [[], "hello", None, {}, [[]], [None], 5])
async def test_unfit_messages_are_refused(client: httpx.AsyncClient, messages: object) -> None:
    response = await client.post("/v1/chat/completions", json=chat(messages=messages))
    assert response.status_code == 400
    assert str(error_of(response)["param"]).startswith("messages")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"model": MODEL}, "prompt"),
        ("/v1/completions", {"prompt": "x"}, "model"),
        ("/v1/chat/completions", {"model": MODEL}, "messages"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}, "model"),
        ("/detokenize", {"model": MODEL}, "tokens"),
    ],
)
async def test_a_missing_field_is_named(
    client: httpx.AsyncClient, path: str, body: dict[str, object], param: str
) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 400
    error = error_of(response)
    assert error["param"] == param
    assert error["message"] == f"'{param}' is required."


async def test_an_integer_may_be_written_with_a_fraction_of_nothing(
    client: httpx.AsyncClient,
) -> None:
    body = completion([5.0, 6.0], max_tokens=3.0, n=1.0, seed=1e3)
    response = await client.post("/v1/completions", json=body)
    assert response.json()["usage"]["completion_tokens"] == 3


async def test_a_refusal_is_a_plain_answer_even_for_a_stream(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/completions", json=completion(stream=True, n=0))
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"


async def test_a_prompt_beyond_the_context_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/completions", json=completion([5] * 600))
    assert response.status_code == 400
    assert error_of(response)["code"] == "context_length_exceeded"


async def test_a_text_that_can_never_fit_is_not_even_tokenised(
    client: httpx.AsyncClient, app: App
) -> None:
    response = await client.post("/v1/completions", json=completion("x" * 100_000))
    assert response.status_code == 400
    assert error_of(response)["code"] == "context_length_exceeded"
    assert app.engine.calls == {}


async def test_a_hundred_thousand_messages_are_refused(client: httpx.AsyncClient) -> None:
    """Case F05."""
    messages = [{"role": "user", "content": ""}] * 100_000
    response = await client.post("/v1/chat/completions", json=chat(messages=messages))
    assert (response.status_code, error_of(response)["param"]) == (400, "messages")


@pytest.mark.parametrize(
    "media", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
async def test_only_json_is_read(client: httpx.AsyncClient, media: str | None) -> None:
    headers = {} if media is None else {"content-type": media}
    body = json.dumps(completion()).encode()
    response = await client.post("/v1/completions", content=body, headers=headers)
    assert response.status_code == 415
    assert error_of(response)["code"] == "unsupported_media_type"


async def test_a_charset_beside_json_is_accepted(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    body = json.dumps(completion()).encode()
    response = await client.post("/v1/completions", content=body, headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, identity"])
async def test_a_compressed_body_is_refused_unread(client: httpx.AsyncClient, coding: str) -> None:
    headers = {**JSON, "content-encoding": coding}
    response = await client.post("/v1/completions", content=b"\x1f\x8b", headers=headers)
    assert response.status_code == 415


@pytest.mark.parametrize("path", ["/nope", "/v1", "/v1/completions/", "/docs", "/v1/engines"])
async def test_an_unknown_path_is_a_404_in_the_envelope(
    client: httpx.AsyncClient, path: str
) -> None:
    """Case F06."""
    response = await client.get(path)
    assert response.status_code == 404
    assert error_of(response)["code"] == "unknown_url"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/completions", "POST"),
        ("PUT", "/v1/chat/completions", "POST"),
        ("OPTIONS", "/v1/completions", "POST"),
        ("POST", "/health", "GET"),
        ("DELETE", "/v1/models", "GET"),
    ],
)
async def test_a_wrong_method_is_a_405_that_tells_the_right_one(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    response = await client.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == allowed
    assert error_of(response)["code"] == "method_not_allowed"


@pytest.mark.parametrize("name", ["gpt-4o", "", "no-such-model", "../../etc", "x" * 5000])
@pytest.mark.parametrize("path", PATHS)
async def test_another_model_is_not_found(client: httpx.AsyncClient, path: str, name: str) -> None:
    """Case A17: one policy everywhere, and the answer names what is served."""
    more = {
        "/v1/completions": {"prompt": "x"},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
        "/tokenize": {"prompt": "x"},
        "/detokenize": {"tokens": [5]},
    }
    response = await client.post(path, json={"model": name, **more[path]})
    assert response.status_code == 404
    error = error_of(response)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert MODEL in str(error["message"])
    assert len(response.content) < 1000


@pytest.mark.parametrize("name", [None, 5, ["x"]])
async def test_a_model_that_is_no_name_is_a_bad_request(
    client: httpx.AsyncClient, name: object
) -> None:
    response = await client.post("/v1/completions", json={"model": name, "prompt": "x"})
    assert (response.status_code, error_of(response)["param"]) == (400, "model")


async def test_a_clients_own_words_come_back_shortened(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/completions", json=completion(**{"k" * 10**6: 1}))
    assert response.status_code == 400
    assert len(response.content) < 1000
