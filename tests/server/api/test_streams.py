"""Event streams of both APIs, read to their end."""

from collections import Counter

import httpx
import pytest

from tests.support.http_app import App, Events, Json, chat, completion, read_events

PATHS = {"/v1/completions": completion, "/v1/chat/completions": chat}
both = pytest.mark.parametrize("path", PATHS)

TEXTS = (
    " quick brown fox",
    "",
    " ",
    "\n\n x",
    "a  b",
    "é",
    "😀",
    " the 😀 and 日本語 fox",
    "👩‍👩‍👧‍👦 of the world",
    "don 't ,",
)


def body_of(path: str, prompt: str = "hello", **fields: object) -> Json:
    return PATHS[path](prompt, **fields)


def script(app: App, path: str, prompt: str, answer: object) -> None:
    if path == "/v1/completions":
        app.engine.script(prompt, answer)
    else:
        app.engine.fallback = app.tokenizer.encode(answer, add_special=False, parse_special=False)


async def stream(client: httpx.AsyncClient, path: str, **fields: object) -> Events:
    response = await client.post(path, json=body_of(path, **fields, stream=True))
    assert response.status_code == 200, response.text
    return read_events(response.text)


async def whole(client: httpx.AsyncClient, path: str, **fields: object) -> Json:
    response = await client.post(path, json=body_of(path, **fields))
    assert response.status_code == 200, response.text
    return response.json()


def text_of(choice: Json) -> str:
    return choice["message"]["content"] if "message" in choice else choice["text"]


@both
async def test_the_headers_forbid_caching_and_buffering(
    client: httpx.AsyncClient, path: str
) -> None:
    response = await client.post(path, json=body_of(path, stream=True))
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-length" not in response.headers


@both
async def test_a_good_stream_ends_with_done(client: httpx.AsyncClient, path: str) -> None:
    assert (await stream(client, path, max_tokens=3)).done


@both
async def test_no_usage_is_sent_unasked(client: httpx.AsyncClient, path: str) -> None:
    """Case A01 (a)."""
    events = await stream(client, path, max_tokens=3)
    assert all("usage" not in chunk for chunk in events.chunks)
    assert all(chunk["choices"] for chunk in events.chunks)


@both
async def test_usage_comes_in_one_last_chunk_without_choices(
    client: httpx.AsyncClient, path: str
) -> None:
    """Case A01 (b)."""
    options = {"include_usage": True}
    *chunks, last = (await stream(client, path, max_tokens=3, stream_options=options)).chunks
    assert all(chunk["usage"] is None and chunk["choices"] for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"] == (await whole(client, path, max_tokens=3))["usage"]


@both
async def test_one_id_and_one_time_per_stream(client: httpx.AsyncClient, path: str) -> None:
    """Case A03."""
    first = (await stream(client, path, max_tokens=9)).chunks
    second = (await stream(client, path, max_tokens=9)).chunks
    for chunks in (first, second):
        assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}) == 1
    assert first[0]["id"] != second[0]["id"]
    wanted = "text_completion" if path == "/v1/completions" else "chat.completion.chunk"
    assert first[0]["object"] == wanted


@both
@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"max_tokens": 3}, "length"), ({"max_tokens": 50}, "stop"), ({"stop": "own"}, "stop")],
)
async def test_the_last_chunk_of_a_choice_alone_has_its_finish_reason(
    client: httpx.AsyncClient, app: App, path: str, fields: Json, reason: str
) -> None:
    """Case A02."""
    script(app, path, "hello", " quick brown fox the end")
    *before, last = (await stream(client, path, n=3, **fields)).finish_reasons(index=2)
    assert last == reason
    assert before
    assert set(before) == {None}
    answer = await whole(client, path, n=3, **fields)
    assert {choice["finish_reason"] for choice in answer["choices"]} == {reason}


@both
async def test_the_finish_chunk_brings_no_text(client: httpx.AsyncClient, path: str) -> None:
    """Case B09."""
    last = (await stream(client, path, max_tokens=4)).choices()[-1]
    assert last["finish_reason"] == "length"
    assert last["logprobs"] is None
    assert last.get("delta", {}) == {}
    assert last.get("text", "") == ""


@both
@pytest.mark.parametrize("text", TEXTS)
async def test_a_joined_stream_is_the_unstreamed_text(
    client: httpx.AsyncClient, app: App, path: str, text: str
) -> None:
    """Case B09: whole, and cut at every length."""
    script(app, path, "hello", text)
    for max_tokens in range(1, 8):
        events = await stream(client, path, max_tokens=max_tokens)
        answer = await whole(client, path, max_tokens=max_tokens)
        assert events.texts() == text_of(answer["choices"][0])
    assert (await stream(client, path, max_tokens=99)).texts() == text


@both
async def test_a_character_cut_off_shows_one_replacement(
    client: httpx.AsyncClient, app: App, path: str
) -> None:
    """Case B02: the four bytes of the emoji are four tokens here."""
    script(app, path, "hello", "a😀")
    events = await stream(client, path, max_tokens=3)
    answer = await whole(client, path, max_tokens=3)
    assert events.texts() == text_of(answer["choices"][0]) == "a\ufffd"
    assert answer["usage"]["completion_tokens"] == 3


@both
async def test_bytes_that_are_no_text_hold_up_nothing(
    client: httpx.AsyncClient, app: App, path: str
) -> None:
    """Case B02: 80 80 61."""
    by_byte = {app.tokenizer.token_bytes(i): i for i in range(3, 259)}
    app.engine.fallback = [by_byte[b"\x80"], by_byte[b"\x80"], by_byte[b"a"]]
    events = await stream(client, path, max_tokens=3)
    assert events.texts() == "\ufffd\ufffda"
    assert text_of((await whole(client, path, max_tokens=3))["choices"][0]) == "\ufffd\ufffda"


@both
async def test_an_answer_of_nothing_is_still_an_answer(
    client: httpx.AsyncClient, app: App, path: str
) -> None:
    app.engine.fallback = []
    events = await stream(client, path)
    assert events.texts() == ""
    assert events.finish_reasons()[-1] == "stop"
    assert events.done


async def test_a_chat_stream_begins_with_the_role(client: httpx.AsyncClient) -> None:
    choices = (await stream(client, "/v1/chat/completions", max_tokens=2)).choices()
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert all("role" not in choice["delta"] for choice in choices[1:])


@both
async def test_every_choice_of_a_stream_ends_once(client: httpx.AsyncClient, path: str) -> None:
    """Case A09, streamed."""
    events = await stream(client, path, n=3, temperature=1, seed=3, max_tokens=5)
    answer = await whole(client, path, n=3, temperature=1, seed=3, max_tokens=5)
    for index in range(3):
        assert Counter(events.finish_reasons(index))["length"] == 1
        assert events.texts(index) == text_of(answer["choices"][index])
    assert len({text_of(choice) for choice in answer["choices"]}) > 1


async def test_streamed_choices_of_several_prompts_keep_their_index(
    client: httpx.AsyncClient, app: App
) -> None:
    for prompt, answer in {"A": " quick", "B": " brown", "C": " fox"}.items():
        app.engine.script(prompt, answer)
    events = await stream(client, "/v1/completions", prompt=["A", "B", "C"], n=2)
    assert [events.texts(i) for i in range(6)] == [
        *(" quick", " quick", " brown", " brown", " fox", " fox")
    ]


@both
async def test_stream_options_need_a_stream(client: httpx.AsyncClient, path: str) -> None:
    response = await client.post(path, json=body_of(path, stream_options={"include_usage": True}))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "stream_options"


@both
async def test_an_error_after_the_first_byte_is_one_event_and_the_end(
    client: httpx.AsyncClient, app: App, path: str
) -> None:
    app.engine.fail(tuple(_prompt_ids(app, path)), after=2)
    events = await stream(client, path)
    assert list(events.chunks[-1]) == ["error"]
    assert events.chunks[-1]["error"]["code"] == "generation_failed"
    assert sum("error" in chunk for chunk in events.chunks) == 1
    assert not events.done
    assert app.engine.live == []


@both
async def test_nothing_in_a_stream_but_ascii(
    client: httpx.AsyncClient, app: App, path: str
) -> None:
    """Clients that split lines at U+2028 or U+0085 see whole events."""
    script(app, path, "hello", "a\u2028b\u0085c😀")
    response = await client.post(path, json=body_of(path, stream=True, max_tokens=40))
    assert response.content.isascii()
    assert read_events(response.text).texts() == "a\u2028b\u0085c😀"


def _prompt_ids(app: App, path: str) -> list[int]:
    if path == "/v1/completions":
        return app.tokenizer.encode("hello", add_special=False, parse_special=False)
    turn = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    return app.tokenizer.encode(turn, add_special=False, parse_special=True)
