"""Log probabilities in both shapes, streamed and whole."""

import httpx
import pytest

from tests.support.fake_engine import logprob_of
from tests.support.http_app import App, Json, chat, completion, error_of, read_events

PROMPT = "Héllo wörld 😀 and"
ANSWER = " quick 😀 brown"
LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


async def legacy(client: httpx.AsyncClient, **fields: object) -> tuple[str, Json]:
    response = await client.post("/v1/completions", json=completion(**fields))
    choice = response.json()["choices"][0]
    return choice["text"], choice["logprobs"]


async def streamed(client: httpx.AsyncClient, **fields: object) -> tuple[str, Json]:
    response = await client.post("/v1/completions", json=completion(**fields, stream=True))
    events = read_events(response.text)
    joined: Json = {name: [] for name in LISTS}
    for choice in events.choices():
        for name, values in (choice["logprobs"] or {}).items():
            joined[name].extend(values)
    return events.texts(), joined


async def test_a_prompt_is_scored_without_a_new_token(client: httpx.AsyncClient) -> None:
    """Case A05."""
    text, logprobs = await legacy(client, prompt="hello", echo=True, logprobs=1, max_tokens=0)
    assert text == "hello"
    assert logprobs["tokens"] == ["h", "e", "l", "l", "o"]
    assert logprobs["text_offset"] == [0, 1, 2, 3, 4]
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    assert all(len(logprobs[name]) == 5 for name in LISTS)


async def test_a_prompt_of_token_ids_is_scored_alike(client: httpx.AsyncClient, app: App) -> None:
    ids = app.tokenizer.encode(PROMPT, add_special=False, parse_special=False)
    fields = {"echo": True, "logprobs": 2, "max_tokens": 0}
    assert await legacy(client, prompt=ids, **fields) == await legacy(
        client, prompt=PROMPT, **fields
    )


async def test_one_new_token_is_one_more_entry_even_if_it_is_the_end(
    client: httpx.AsyncClient, app: App
) -> None:
    """Scorers drop the last entry: it must be the generated one."""
    app.engine.script("hello", "")
    text, logprobs = await legacy(client, prompt="hello", echo=True, logprobs=1, max_tokens=1)
    assert text == "hello"
    assert [len(logprobs[name]) for name in LISTS] == [6, 6, 6, 6]
    assert logprobs["tokens"][-1] in ("<|endoftext|>", "<|im_end|>")
    assert logprobs["text_offset"][-1] == 5


async def test_the_numbers_are_the_engines(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script("hello", "xy")
    _, logprobs = await legacy(client, prompt="hello", logprobs=3, max_tokens=2)
    x = app.tokenizer.encode("x", add_special=False, parse_special=False)[0]
    told = logprob_of(x, 3)
    assert logprobs["token_logprobs"][0] == told.logprob
    assert list(logprobs["top_logprobs"][0].values()) == [value for _, value in told.top]


async def test_the_token_itself_is_among_the_likeliest_even_if_none_is_asked_for(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.script("hello", "xy")
    _, logprobs = await legacy(client, prompt="hello", logprobs=0, max_tokens=2)
    assert [list(top) for top in logprobs["top_logprobs"]] == [["x"], ["y"]]


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("max_tokens", [1, 3, 4, 8, 20])
async def test_offsets_count_characters_of_the_text(
    client: httpx.AsyncClient, app: App, *, echo: bool, max_tokens: int
) -> None:
    """Case A07."""
    app.engine.script(PROMPT, ANSWER)
    fields = {"prompt": PROMPT, "echo": echo, "logprobs": 1, "max_tokens": max_tokens}
    text, logprobs = await legacy(client, **fields)
    offsets = logprobs["text_offset"]
    assert offsets == sorted(offsets)
    checked = 0
    for token, offset in zip(logprobs["tokens"], offsets, strict=True):
        if not token.startswith(("bytes:", "<|")):
            assert text[offset:].startswith(token)
            checked += 1
    assert checked
    assert await streamed(client, **fields) == (text, logprobs)


@pytest.mark.parametrize("stop", ["ick 😀 b", "k", "brown", "😀"])
async def test_tokens_hidden_by_a_stop_have_no_entry(
    client: httpx.AsyncClient, app: App, stop: str
) -> None:
    app.engine.script("hello", ANSWER)
    fields = {"prompt": "hello", "logprobs": 0, "stop": stop}
    text, logprobs = await legacy(client, **fields)
    assert text == ANSWER[: ANSWER.index(stop)]
    assert all(offset < len(text) for offset in logprobs["text_offset"])
    assert await streamed(client, **fields) == (text, logprobs)


async def test_part_of_a_character_is_named_by_its_bytes(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.script("hello", "é")
    _, logprobs = await legacy(client, prompt="hello", logprobs=0, max_tokens=2)
    assert logprobs["tokens"] == ["bytes:\\xc3", "bytes:\\xa9"]
    assert logprobs["text_offset"] == [0, 0]


async def test_chat_entries_carry_raw_bytes(client: httpx.AsyncClient, app: App) -> None:
    """Case B02: the bytes join to the text though no token is a whole character."""
    app.engine.fallback = app.tokenizer.encode("é fox", add_special=False, parse_special=False)
    body = chat(logprobs=True, top_logprobs=2, max_tokens=3)
    choice = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]
    entries = choice["logprobs"]["content"]
    joined = bytes(byte for entry in entries for byte in entry["bytes"])
    assert joined.decode() == choice["message"]["content"] == "é fox"
    assert [len(entry["top_logprobs"]) for entry in entries] == [2, 2, 2]
    assert entries[2]["token"] == " fox"
    assert choice["logprobs"]["refusal"] is None


async def test_streamed_chat_entries_are_the_whole_answers(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.fallback = app.tokenizer.encode(ANSWER, add_special=False, parse_special=False)
    body = chat(logprobs=True, top_logprobs=1, max_tokens=30)
    answer = (await client.post("/v1/chat/completions", json=body)).json()
    response = await client.post("/v1/chat/completions", json={**body, "stream": True})
    entries = [
        entry
        for choice in read_events(response.text).choices()
        for entry in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert entries == answer["choices"][0]["logprobs"]["content"]
    assert len(entries) == answer["usage"]["completion_tokens"]


async def test_no_logprobs_are_sent_unasked(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/v1/chat/completions", json=chat(max_tokens=2))).json()
    assert answer["choices"][0]["logprobs"] is None


async def test_top_logprobs_need_logprobs(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/chat/completions", json=chat(top_logprobs=2))
    assert (response.status_code, error_of(response)["param"]) == (400, "top_logprobs")


@pytest.mark.parametrize("logprobs", [-1, 21, True, "1", 1.5])
async def test_an_unfit_number_of_logprobs_is_refused(
    client: httpx.AsyncClient, logprobs: object
) -> None:
    response = await client.post("/v1/completions", json=completion(logprobs=logprobs))
    assert (response.status_code, error_of(response)["param"]) == (400, "logprobs")
