"""The openai package, sync and async, against a running server: every feature as its users see it."""

import asyncio
from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.support.live_server import PATIENCE, LiveServer

MESSAGES = [{"role": "user", "content": "hello world"}]
SERVER_FLAGS = ("--max-num-seqs=8", "--api-key=let-me-in")


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="let-me-in", timeout=PATIENCE, max_retries=0
    ) as client:
        yield client


def chat(client: openai.OpenAI, **fields: object) -> openai.types.chat.ChatCompletion:
    values = {"model": "tiny", "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
    return client.chat.completions.create(**(values | fields))


def complete(client: openai.OpenAI, **fields: object) -> openai.types.Completion:
    values = {"model": "tiny", "prompt": "the quick", "max_tokens": 12, "temperature": 0}
    return client.completions.create(**(values | fields))


def test_a_chat_is_answered(client: openai.OpenAI) -> None:
    answer = chat(client)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_streamed_chat_is_the_unstreamed_one(client: openai.OpenAI) -> None:
    whole = chat(client, logprobs=True, top_logprobs=2)
    chunks: list[ChatCompletionChunk] = list(
        chat(
            client,
            logprobs=True,
            top_logprobs=2,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    *told, last = chunks
    assert "".join(c.choices[0].delta.content or "" for c in told) == (
        whole.choices[0].message.content
    )
    entries = [e for c in told if c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert entries == whole.choices[0].logprobs.content
    assert told[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert last.choices == []
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_without_stream_options_every_chunk_has_a_choice(client: openai.OpenAI) -> None:
    """Case A01."""
    for chunks in (chat(client, stream=True), complete(client, stream=True)):
        assert all(chunk.choices and chunk.usage is None for chunk in chunks)


def test_a_streamed_completion_is_the_unstreamed_one(client: openai.OpenAI) -> None:
    whole = complete(client, echo=True, logprobs=2)
    chunks = list(complete(client, echo=True, logprobs=2, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        told = [c.choices[0].logprobs for c in chunks if c.choices[0].logprobs]
        joined = [value for logprobs in told for value in getattr(logprobs, name)]
        assert joined == getattr(whole.choices[0].logprobs, name)


def test_a_stop_string_ends_an_answer(client: openai.OpenAI) -> None:
    text = complete(client, extra_body={"ignore_eos": True}).choices[0].text
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    stopped = complete(client, stop=[stop], extra_body={"ignore_eos": True}).choices[0]
    assert stopped.text == text[: text.index(stop)]
    assert stopped.finish_reason == "stop"


def test_several_prompts_and_samples_are_told_apart(client: openai.OpenAI) -> None:
    """Case A09."""
    fields = {"prompt": ["A", "B", "C"], "n": 2, "seed": 7, "temperature": 0.9}
    whole = complete(client, **fields)
    again = complete(client, **fields)
    assert [choice.index for choice in whole.choices] == list(range(6))
    assert [c.text for c in whole.choices] == [c.text for c in again.choices]
    assert whole.choices[0].text != whole.choices[1].text
    streamed = dict.fromkeys(range(6), "")
    for chunk in complete(client, **fields, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert list(streamed.values()) == [choice.text for choice in whole.choices]


def test_a_seed_decides_and_no_seed_is_fresh(client: openai.OpenAI) -> None:
    """Case A14."""
    fields = {"temperature": 1.0, "max_tokens": 25, "extra_body": {"ignore_eos": True}}

    def text(**more: object) -> str:
        return complete(client, **fields, **more).choices[0].text

    assert text(seed=1) == text(seed=1)
    assert len({text(seed=seed) for seed in (1, 2, 3)}) > 1
    assert len({text() for _ in range(4)}) > 1


async def test_a_seeded_answer_is_the_same_in_a_crowd(
    client: openai.OpenAI, server: LiveServer
) -> None:
    """Case A14: alone, and among seven others with other seeds and temperatures."""
    fields = {"model": "tiny", "prompt": "the", "max_tokens": 20}
    alone = client.completions.create(**fields, seed=1, temperature=1)
    async with crowd(server) as clients:
        answers = await asyncio.gather(
            *(
                clients.completions.create(**fields, seed=1 + i, temperature=1 + i / 10)
                for i in range(8)
            )
        )
    assert answers[0].choices[0].text == alone.choices[0].text


async def test_eight_streams_at_once_get_what_each_gets_alone(
    client: openai.OpenAI, server: LiveServer
) -> None:
    prompts = [f"the {word} " * (1 + number * 7) for number, word in enumerate("abcdefgh")]
    alone = [complete(client, prompt=prompt).choices[0].text for prompt in prompts]

    async def streamed(clients: openai.AsyncOpenAI, prompt: str) -> str:
        chunks = await clients.completions.create(
            model="tiny", prompt=prompt, max_tokens=12, temperature=0, stream=True
        )
        return "".join([chunk.choices[0].text async for chunk in chunks])

    async with crowd(server) as clients:
        together = await asyncio.gather(*(streamed(clients, prompt) for prompt in prompts))
    assert together == alone


async def test_each_in_a_batch_keeps_its_own_settings(
    client: openai.OpenAI, server: LiveServer
) -> None:
    """Case C02: whoever is greedy by temperature, top_k or top_p gets the greedy text."""
    greedy = complete(client, max_tokens=16).choices[0].text
    settings = [
        {"temperature": 0},
        {"temperature": 2, "seed": 3},
        {"temperature": 1, "extra_body": {"top_k": 1}},
        {"temperature": 1, "top_p": 1e-6},
        {"temperature": 0, "presence_penalty": 2, "frequency_penalty": 2},
        {"temperature": 0, "stop": [greedy[4:6]]},
    ]
    async with crowd(server) as clients:
        for order in (settings, settings[::-1]):
            answers = await asyncio.gather(
                *(
                    clients.completions.create(
                        model="tiny", prompt="the quick", max_tokens=16, **own
                    )
                    for own in order
                )
            )
            texts = dict(zip(map(str, order), (a.choices[0].text for a in answers), strict=True))
            told = [texts[str(own)] for own in settings]
            assert told[0] == told[2] == told[3] == greedy
            assert told[1] != greedy
            assert told[5] == greedy[: greedy.index(greedy[4:6])]


async def test_refused_schemas_and_changed_logits_leave_the_plain_rows_alone(
    client: openai.OpenAI, server: LiveServer
) -> None:
    """Case C03: rows with a bias, with penalties and with neither end at different times."""
    settings = [
        {"max_tokens": 16},
        {"max_tokens": 4, "logit_bias": {"70": 100}},
        {"max_tokens": 9, "presence_penalty": 2, "extra_body": {"repetition_penalty": 1.5}},
        {"max_tokens": 12},
    ]
    alone = [complete(client, **own).choices[0].text for own in settings]
    async with crowd(server) as clients:

        async def refused() -> str | None:
            with pytest.raises(openai.BadRequestError) as caught:
                await clients.chat.completions.create(
                    model="tiny", messages=MESSAGES, response_format={"type": "json_object"}
                )
            return caught.value.param

        async def answered(own: dict[str, object]) -> str:
            values = {"model": "tiny", "prompt": "the quick", "temperature": 0} | own
            return (await clients.completions.create(**values)).choices[0].text

        for _ in range(5):
            field, *together = await asyncio.gather(refused(), *map(answered, settings))
            assert field == "response_format"
            assert together == alone


def test_a_biased_token_is_every_token(client: openai.OpenAI) -> None:
    """Case A15."""
    answer = complete(client, logit_bias={"70": 100}, logprobs=0, max_tokens=4)
    assert len(set(answer.choices[0].logprobs.tokens)) == 1


def test_models_are_listed_and_found(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "octavo"


def test_a_wrong_model_is_a_not_found_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat(client, model="gpt-4o")
    assert caught.value.code == "model_not_found"
    assert "'tiny'" in caught.value.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"n": 0}, "n"),
        ({"logit_bias": {"99999999": 5}}, "logit_bias"),
        ({"messages": []}, "messages"),
        ({"extra_body": {"foo": 1}}, "foo"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_request_is_a_bad_request_error_that_names_the_field(
    client: openai.OpenAI, fields: dict[str, object], param: str, *, stream: bool
) -> None:
    """Case F06."""
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **fields, stream=stream)
    assert caught.value.param == param
    assert param in caught.value.message


def test_a_prompt_beyond_the_context_is_a_bad_request_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, prompt=[70] * 5000)
    assert caught.value.code == "context_length_exceeded"


def test_a_wrong_key_is_an_authentication_error(server: LiveServer) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            chat(stranger)
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()


def crowd(server: LiveServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="let-me-in", timeout=PATIENCE, max_retries=0
    )
