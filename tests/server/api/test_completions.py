"""POST /v1/completions, whole answers."""

import httpx
import pytest

from tests.support.http_app import MODEL, App, completion, error_of

QUICK = " quick brown fox"


async def post(client: httpx.AsyncClient, **fields: object) -> httpx.Response:
    return await client.post("/v1/completions", json=completion(**fields))


async def test_an_answer_has_openais_shape(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script("hello", QUICK)
    body = (await post(client)).json()
    assert body["id"].startswith("cmpl-")
    assert body["object"] == "text_completion"
    assert isinstance(body["created"], int)
    assert body["model"] == MODEL
    assert body["choices"] == [
        {"index": 0, "text": QUICK, "logprobs": None, "finish_reason": "stop"}
    ]
    assert body["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 4,  # the eos token is counted
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


async def test_cached_prompt_tokens_are_told(client: httpx.AsyncClient, app: App) -> None:
    app.engine.cached_tokens = 3
    usage = (await post(client, prompt=["hello", " world"], max_tokens=2)).json()["usage"]
    assert usage["prompt_tokens_details"] == {"cached_tokens": 6}


async def test_the_leading_space_of_an_answer_stays(client: httpx.AsyncClient, app: App) -> None:
    """Case B05."""
    app.engine.script("Hello,", " world")
    assert (await post(client, prompt="Hello,")).json()["choices"][0]["text"] == " world"


async def test_sixteen_tokens_are_the_default(client: httpx.AsyncClient) -> None:
    body = (await post(client)).json()
    assert body["usage"]["completion_tokens"] == 16
    assert body["choices"][0]["finish_reason"] == "length"


async def test_null_means_the_default(client: httpx.AsyncClient) -> None:
    names = ("max_tokens", "temperature", "n", "stop", "seed", "logit_bias", "stream", "user")
    response = await post(client, **dict.fromkeys(names))
    assert response.json()["usage"]["completion_tokens"] == 16


async def test_token_ids_are_taken_as_they_are(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script([1, 5, 9], " quick")
    body = (await post(client, prompt=[1, 5, 9])).json()
    assert body["choices"][0]["text"] == " quick"
    assert body["usage"]["prompt_tokens"] == 3


@pytest.mark.parametrize("as_ids", [False, True])
async def test_choices_of_several_prompts_are_prompt_major(
    client: httpx.AsyncClient, app: App, *, as_ids: bool
) -> None:
    """Case A09."""
    answers = {"A": " quick", "B": " brown", "C": " fox"}
    for prompt, answer in answers.items():
        app.engine.script(prompt, answer)
    ids = [app.tokenizer.encode(p, add_special=False, parse_special=False) for p in answers]
    body = (await post(client, prompt=ids if as_ids else list(answers), n=2)).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3, 4, 5]
    assert [choice["text"] for choice in body["choices"]] == [
        *(" quick", " quick", " brown", " brown", " fox", " fox")
    ]


async def test_usage_counts_a_prompt_once_and_every_choice(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.script("AB", QUICK)
    usage = (await post(client, prompt=["AB", "AB"], n=3)).json()["usage"]
    assert usage["prompt_tokens"] == 4
    assert usage["completion_tokens"] == 2 * 3 * 4


async def test_several_prompts_are_admitted_all_or_none(
    client: httpx.AsyncClient, app: App
) -> None:
    response = await post(client, prompt=[[5, 6], [7], [10**6]])
    assert response.status_code == 400
    assert error_of(response)["param"] == "prompt"
    assert app.engine.live == []
    assert {request_id for request_id, _ in app.engine.aborted} == set(app.engine.calls)


async def test_samples_of_one_prompt_are_one_engine_request(
    client: httpx.AsyncClient, app: App
) -> None:
    await post(client, n=3, temperature=0.9, seed=7)
    (call,) = app.engine.calls.values()
    assert call.request.sampling.n == 3
    assert call.request.sampling.seed == 7


async def test_best_of_answers_the_likeliest(client: httpx.AsyncClient, app: App) -> None:
    app.engine.fallback = [259, 9, 100, 4, 8, 30, 60, 200, 90, 11]
    body = (await post(client, n=1, best_of=5, temperature=1, seed=0, max_tokens=1)).json()
    assert [choice["index"] for choice in body["choices"]] == [0]
    likeliest = app.tokenizer.decode([4], skip_special=True)
    assert body["choices"][0]["text"] == likeliest
    assert body["choices"][0]["logprobs"] is None
    assert body["usage"]["completion_tokens"] == 5


async def test_best_of_must_not_be_below_n(client: httpx.AsyncClient) -> None:
    response = await post(client, n=3, best_of=2)
    assert (response.status_code, error_of(response)["param"]) == (400, "best_of")


async def test_best_of_beyond_n_is_not_streamed(client: httpx.AsyncClient) -> None:
    response = await post(client, best_of=2, stream=True)
    assert (response.status_code, error_of(response)["param"]) == (400, "best_of")


async def test_echo_begins_the_text_with_the_prompt(client: httpx.AsyncClient, app: App) -> None:
    app.engine.script("héllo 😀", QUICK)
    body = (await post(client, prompt="héllo 😀", echo=True)).json()
    assert body["choices"][0]["text"] == "héllo 😀" + QUICK


async def test_no_tokens_may_be_asked_for(client: httpx.AsyncClient) -> None:
    body = (await post(client, max_tokens=0)).json()
    assert body["choices"][0]["text"] == ""
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 0


async def test_every_sampling_field_reaches_the_engine(client: httpx.AsyncClient, app: App) -> None:
    fields = {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "min_tokens": 2,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "repetition_penalty": 1.1,
        "ignore_eos": True,
    }
    await post(client, **fields, stop_token_ids=[7], logit_bias={"5": -100, "6": 1.5})
    (call,) = app.engine.calls.values()
    sampling = call.request.sampling
    assert {name: getattr(sampling, name) for name in fields} == fields
    assert sampling.stop_token_ids == {7}
    assert dict(sampling.logit_bias) == {5: -100, 6: 1.5}


@pytest.mark.parametrize(("given", "reached"), [(None, True), (True, True), (False, False)])
async def test_a_request_can_do_without_drafts(
    client: httpx.AsyncClient, app: App, given: bool | None, reached: bool
) -> None:
    await post(client, speculative=given)
    (call,) = app.engine.calls.values()
    assert call.request.speculative is reached


async def test_minus_one_means_no_top_k(client: httpx.AsyncClient, app: App) -> None:
    await post(client, top_k=-1)
    (call,) = app.engine.calls.values()
    assert call.request.sampling.top_k == 0


async def test_calls_without_a_seed_get_fresh_ones(client: httpx.AsyncClient, app: App) -> None:
    """Case A14."""
    for _ in range(5):
        await post(client, temperature=1)
    assert len({call.request.sampling.seed for call in app.engine.calls.values()}) == 5


async def test_a_negative_seed_is_a_seed(client: httpx.AsyncClient, app: App) -> None:
    await post(client, seed=-1)
    (call,) = app.engine.calls.values()
    assert call.request.sampling.seed == 2**64 - 1


async def test_a_biased_token_is_every_token(client: httpx.AsyncClient, app: App) -> None:
    """Case A15."""
    brown = app.tokenizer.encode(" brown", add_special=False, parse_special=False)[0]
    body = (await post(client, logit_bias={str(brown): 100}, max_tokens=3)).json()
    assert body["choices"][0]["text"] == " brown brown brown"


async def test_a_stop_token_ends_the_text_and_is_no_part_of_it(
    client: httpx.AsyncClient, app: App
) -> None:
    brown = app.tokenizer.encode(" brown", add_special=False, parse_special=False)[0]
    body = (await post(client, stop_token_ids=[brown])).json()
    assert body["choices"][0]["text"] == " quick"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 2


async def test_special_tokens_show_only_when_asked_for(client: httpx.AsyncClient, app: App) -> None:
    """Case E07, the answer's side."""
    app.engine.script("hello", [*app.engine.fallback[:1], 1, *app.engine.fallback[1:2]])
    hidden = (await post(client)).json()["choices"][0]["text"]
    shown = (await post(client, skip_special_tokens=False)).json()["choices"][0]["text"]
    assert (hidden, shown) == (" quick brown", " quick<|im_start|> brown")


async def test_special_tokens_in_a_prompt_are_text_unless_asked_for(
    client: httpx.AsyncClient,
) -> None:
    """Case E07, the prompt's side."""
    forged = "hi<|im_end|>"
    as_text = (await post(client, prompt=forged)).json()["usage"]["prompt_tokens"]
    parsed = (await post(client, prompt=forged, parse_special_tokens=True)).json()["usage"]
    assert (as_text, parsed["prompt_tokens"]) == (len(forged), 3)


async def test_a_sequence_that_fails_ends_its_request_alone(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.fail("B")
    failed = await post(client, prompt="B")
    assert failed.status_code == 500
    assert error_of(failed)["code"] == "generation_failed"
    assert (await post(client, prompt="A")).status_code == 200
    assert app.engine.live == []


async def test_one_failed_choice_fails_the_whole_answer(
    client: httpx.AsyncClient, app: App
) -> None:
    app.engine.fail("B")
    assert (await post(client, prompt=["A", "B"])).status_code == 500
    assert app.engine.live == []
