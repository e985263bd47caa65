"""Stop strings, through HTTP."""

import httpx
import pytest

from tests.support.http_app import App, completion, error_of, read_events

ALPHABET = "DEFGHIJKLMNOP"


async def answers(client: httpx.AsyncClient, **fields: object) -> tuple[str, str, int]:
    """The text and finish reason of one completion, streamed and whole alike, and its tokens."""
    whole = (await client.post("/v1/completions", json=completion("ABC", **fields))).json()
    choice = whole["choices"][0]
    streamed = await client.post("/v1/completions", json=completion("ABC", stream=True, **fields))
    events = read_events(streamed.text)
    assert events.texts() == choice["text"]
    assert events.finish_reasons()[-1] == choice["finish_reason"]
    return choice["text"], choice["finish_reason"], whole["usage"]["completion_tokens"]


async def test_a_stop_string_over_several_tokens_ends_the_text_before_it(
    client: httpx.AsyncClient, app: App
) -> None:
    """Case B03."""
    app.engine.script("ABC", ALPHABET)
    assert await answers(client, stop=["GHIJ"]) == ("DEF", "stop", 7)


async def test_no_delta_has_any_part_of_a_stop(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script("ABC", ALPHABET)
    body = completion("ABC", stop=["GHIJ"], stream=True)
    events = read_events((await client.post("/v1/completions", json=body)).text)
    assert [c["text"] for c in events.choices()] == ["D", "E", "F", ""]


async def test_a_stop_may_begin_inside_a_token(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script("ABC", " quick brown fox the")
    assert (await answers(client, stop=["own fox"]))[:2] == (" quick br", "stop")


async def test_a_stop_that_overlaps_itself_is_found(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script("ABC", "aaab!")
    assert (await answers(client, stop="aab"))[:2] == ("a", "stop")


async def test_the_earliest_stop_wins_not_the_first_listed(
    client: httpx.AsyncClient, app: App
) -> None:
    """Case A16."""
    app.engine.script("ABC", ALPHABET)
    assert (await answers(client, stop=["K", "F"]))[:2] == ("DE", "stop")


async def test_what_looked_like_a_stop_is_shown_at_the_end(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.script("ABC", ALPHABET)
    assert await answers(client, stop="FGHX", max_tokens=5) == ("DEFGH", "length", 5)


async def test_the_engine_is_told_to_end_a_stopped_sequence(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.script("ABC", ALPHABET * 30)
    await answers(client, stop="F", max_tokens=300)
    first = next(iter(app.engine.calls))
    assert app.engine.aborted[0] == (first, 0)
    assert app.engine.live == []


async def test_one_stopped_choice_leaves_the_others_running(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.script("A", "xyz")
    app.engine.script("B", "uvw")
    body = completion(["A", "B"], stop="z", max_tokens=10)
    choices = (await client.post("/v1/completions", json=body)).json()["choices"]
    assert [choice["text"] for choice in choices] == ["xy", "uvw"]


async def test_no_stop_counts_before_min_tokens(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script("ABC", "DEFDEF")
    assert await answers(client, stop="F", min_tokens=4) == ("DEFDE", "stop", 6)


@pytest.mark.parametrize("stop", [None, []])
async def test_no_stop_is_no_stop(client: httpx.AsyncClient, app: App, stop: object) -> None:
    app.engine.script("ABC", ALPHABET)
    assert (await answers(client, stop=stop))[0] == ALPHABET


async def test_a_long_stop_is_accepted(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script("ABC", ALPHABET)
    assert (await answers(client, stop="x" * 3000))[0] == ALPHABET


@pytest.mark.parametrize("stop", ["", [""], ["", ".\n"], list("abcde"), ["a"] * 100, [1], 5])
async def test_an_unfit_stop_is_refused(client: httpx.AsyncClient, stop: object) -> None:
    response = await client.post("/v1/completions", json=completion(stop=stop))
    assert response.status_code == 400
    assert str(error_of(response)["param"]).startswith("stop")


async def test_a_stop_ends_a_chat_too(client: httpx.AsyncClient, app: App) -> None:
    app.engine.fallback = app.tokenizer.encode(ALPHABET, add_special=False, parse_special=False)
    body = {
        "model": completion()["model"],
        "messages": [{"role": "user", "content": "go"}],
        "stop": "GHI",
    }
    choice = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("DEF", "stop")


async def test_the_echoed_prompt_is_not_searched_for_stops(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.script("ABC", ALPHABET)
    assert (await answers(client, stop="B", echo=True))[0] == "ABC" + ALPHABET
