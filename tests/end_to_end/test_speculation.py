"""Speculative decoding on a real server: with drafts and without, every answer is the same."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.live_server import PATIENCE, LiveServer, live_server

Json = dict[str, object]

# Two tokens far ahead of all others: texts of them repeat themselves, with a turn now and then.
REPEATING: Json = {"logit_bias": {"70": 90, "71": 90, "72": 89}}
REQUESTS: dict[str, Json] = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 0.8, "seed": 5},
    "several choices": {"temperature": 1.0, "seed": 6, "n": 3},
    "penalties": {"temperature": 0, "frequency_penalty": 0.3, "repetition_penalty": 1.1},
    "log probabilities": {"temperature": 0, "logprobs": 2},
    "an echo": {"temperature": 0, "echo": True, "logprobs": 1},
    "an odd length": {"temperature": 0, "max_tokens": 13},
}


@pytest.fixture(scope="module", params=["ngram", "a second model"])
def drafting(request: pytest.FixtureRequest, tiny_model: Path) -> Iterator[LiveServer]:
    """The second model is the first once more: right where nothing changes the logits."""
    how = "ngram" if request.param == "ngram" else str(tiny_model)
    with live_server(tiny_model, "--speculative", how, "--max-draft-tokens", "5") as server:
        yield server


def post(server: LiveServer, **fields: object) -> httpx.Response:
    body = {
        "model": "tiny",
        "prompt": [5, 6, 70, 71, 70, 71],
        "max_tokens": 48,
        "ignore_eos": True,
        **REPEATING,
        **fields,
    }
    return httpx.post(f"{server.url}/v1/completions", json=body, timeout=PATIENCE)


def answer(server: LiveServer, **fields: object) -> tuple[object, object]:
    """Choices and usage, but for what came from the prefix cache."""
    response = post(server, **fields)
    assert response.status_code == 200, response.text
    body = response.json()
    return body["choices"], body["usage"]["completion_tokens"]


def num_drafted(server: LiveServer) -> float:
    return server.metrics()["octavo_drafted_tokens_total"]


@pytest.mark.parametrize("fields", REQUESTS.values(), ids=REQUESTS.keys())
def test_an_answer_is_the_same_with_drafts_and_without(drafting: LiveServer, fields: Json) -> None:
    before = num_drafted(drafting)
    plain = answer(drafting, **fields, speculative=False)
    assert num_drafted(drafting) == before
    assert answer(drafting, **fields) == plain
    assert num_drafted(drafting) > before


@pytest.mark.parametrize("bias", [REPEATING, {"logit_bias": {}}], ids=["biased", "unbiased"])
def test_a_stop_string_ends_the_text_wherever_a_run_was(drafting: LiveServer, bias: Json) -> None:
    fields = {"temperature": 0, **bias}
    choices, _ = answer(drafting, **fields, speculative=False)
    assert isinstance(choices, list)
    text = choices[0]["text"]
    for place in range(4, 16, 5):
        stop = text[place : place + 3]
        plain = answer(drafting, **fields, stop=stop, speculative=False)
        assert answer(drafting, **fields, stop=stop) == plain
        assert plain[0][0]["finish_reason"] == "stop"  # type: ignore[index]


def test_a_stream_brings_the_same_text_and_usage(drafting: LiveServer) -> None:
    def streamed(**fields: object) -> tuple[str, object]:
        options = {"include_usage": True}
        text = post(drafting, stream=True, stream_options=options, temperature=0, **fields).text
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        pieces = [choice["text"] for event in events for choice in event["choices"]]
        return "".join(pieces), events[-1]["usage"]["completion_tokens"]

    assert streamed() == streamed(speculative=False)


def test_the_outcome_of_drafts_is_told_and_adds_up(drafting: LiveServer) -> None:
    for bias in (REPEATING, {"logit_bias": {}}):
        answer(drafting, temperature=0, **bias)
    found = drafting.metrics()
    drafted = found["octavo_drafted_tokens_total"]
    accepted = found["octavo_accepted_tokens_total"]
    assert accepted > 0
    assert drafted == accepted + found["octavo_rewound_tokens_total"]
    places = range(1, 6)
    assert drafted == sum(found.get(f"octavo_drafted_by_place_total {p}", 0) for p in places)
    assert accepted == sum(found.get(f"octavo_accepted_by_place_total {p}", 0) for p in places)
    assert found["octavo_proposer_failures_total"] == 0
    assert found["octavo_pages used"] == 0


def test_the_start_tells_how_is_drafted(drafting: LiveServer) -> None:
    log = drafting.logged("settings:")
    assert "max_draft_tokens=5" in log
    assert re.search(r"\bspeculative=(ngram|/\S+/tiny)\b", log)
