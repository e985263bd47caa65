"""Exactly one begin-of-sequence token, where the model has one. Case E05."""

import pytest

from tests.support.http_app import App, chat, completion, error_of, in_memory, make_app
from tests.support.tokenizer_families import BEGIN, BEGIN_ID, END_ID, FAMILIES, family

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] }}: "
    "{{ message['content'] }}\n{% endfor %}"
)


@pytest.fixture(params=FAMILIES)
def app(request: pytest.FixtureRequest) -> App:
    eos = frozenset({END_ID})
    return make_app(family(request.param, bos_token_id=BEGIN_ID, eos_token_ids=eos))


async def prompt_of(app: App, **fields: object) -> tuple[int, ...]:
    async with in_memory(app) as client:
        response = await client.post("/v1/completions", json=completion(**fields, max_tokens=1))
    assert response.status_code == 200, response.text
    prompt = list(app.engine.calls.values())[-1].request.prompt_token_ids
    assert response.json()["usage"]["prompt_tokens"] == len(prompt)
    return prompt


async def test_a_text_begins_with_one(app: App) -> None:
    prompt = await prompt_of(app, prompt="a b")
    assert prompt[0] == BEGIN_ID
    assert prompt.count(BEGIN_ID) == 1


async def test_none_is_added_where_it_is_not_wanted(app: App) -> None:
    assert BEGIN_ID not in await prompt_of(app, prompt="a b", add_special_tokens=False)


async def test_a_text_that_spells_it_has_one_all_the_same(app: App) -> None:
    prompt = await prompt_of(app, prompt=f"{BEGIN}a", parse_special_tokens=True)
    assert prompt[0] == BEGIN_ID
    assert prompt.count(BEGIN_ID) == 1


async def test_its_spelling_is_text_unless_it_is_to_be_parsed(app: App) -> None:
    prompt = await prompt_of(app, prompt=f"{BEGIN}a")
    assert prompt.count(BEGIN_ID) == 1
    assert app.tokenizer.decode(prompt[1:], skip_special=True).endswith(f"{BEGIN}a")


async def test_token_ids_get_none(app: App) -> None:
    assert await prompt_of(app, prompt=[5, 6]) == (5, 6)


async def test_an_empty_text_is_answered_from_it(app: App) -> None:
    """Case A11: a model without one has nothing to begin from, and refuses."""
    assert await prompt_of(app, prompt="") == (BEGIN_ID,)


@pytest.mark.parametrize("echo", [False, True])
async def test_it_is_scored_but_no_part_of_the_echoed_text(app: App, *, echo: bool) -> None:
    async with in_memory(app) as client:
        body = completion("a b", echo=echo, logprobs=1, max_tokens=1)
        choice = (await client.post("/v1/completions", json=body)).json()["choices"][0]
    prompt = list(app.engine.calls.values())[-1].request.prompt_token_ids
    assert choice["text"].startswith("a b") == echo
    assert len(choice["logprobs"]["tokens"]) == (len(prompt) if echo else 0) + 1
    if echo:
        assert choice["logprobs"]["tokens"][0] == BEGIN
        assert choice["logprobs"]["text_offset"][:2] == [0, 0]


@pytest.mark.parametrize("template", [TEMPLATE, TEMPLATE.removeprefix("{{ bos_token }}")])
@pytest.mark.parametrize("name", FAMILIES)
async def test_a_chat_has_one_whether_its_template_writes_it_or_not(
    name: str, template: str
) -> None:
    eos = frozenset({END_ID})
    app = make_app(family(name, bos_token_id=BEGIN_ID, eos_token_ids=eos, chat_template=template))
    async with in_memory(app) as client:
        response = await client.post("/v1/chat/completions", json=chat("a b", max_tokens=1))
    assert response.status_code == 200, response.text
    (call,) = app.engine.calls.values()
    assert call.request.prompt_token_ids[0] == BEGIN_ID
    assert call.request.prompt_token_ids.count(BEGIN_ID) == 1


async def test_a_chat_with_a_model_without_a_template_is_refused(app: App) -> None:
    async with in_memory(app) as client:
        response = await client.post("/v1/chat/completions", json=chat("a"))
    assert response.status_code == 400
    assert "template" in str(error_of(response)["message"])
