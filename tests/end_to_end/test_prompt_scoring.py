"""Scoring given text over HTTP, as evaluation harnesses do it: echo, logprobs and at most one token.

A harness sends context and continuation as token ids, drops the entry of the generated token and
sums what stands after the context.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import mlx.core as mx
import numpy as np
import pytest

from engine.models import CausalLM, load_model
from tests.support.dense_attend import DenseAttend
from tests.support.live_server import PATIENCE, LiveServer, live_server

TOLERANCE = 1e-3
PAGE_SIZE = 16
SERVER_FLAGS = (f"--page-size={PAGE_SIZE}", "--max-num-batched-tokens=24", "--max-num-seqs=8")

PAIRS = [
    ("The capital of France is", " Paris", " banana"),
    ("Two plus two equals", " four", " purple"),
    ("The opposite of hot is", " cold", " window"),
    ("Water freezes into", " ice", " music"),
    ("The sun rises in the", " east", " bottle"),
]

Json = dict[str, object]


@pytest.fixture(scope="module")
def reference(tiny_model: Path) -> CausalLM:
    return load_model(tiny_model).model


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Iterator[LiveServer]:
    with live_server(smollm2_path, "--served-model-name=smollm2") as server:
        yield server


def forward(model: CausalLM, ids: Sequence[int]) -> np.ndarray:
    """Log probabilities of every next token at every place: [T, vocab], in one plain pass."""
    attend = DenseAttend()
    attend.row_lengths = [len(ids)]
    logits = model.logits(model(mx.array(ids), mx.arange(len(ids)), attend))
    return np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))


def expected(model: CausalLM, ids: Sequence[int]) -> list[float]:
    """The log probability of each token but the first."""
    table = forward(model, ids)
    return [float(table[place, token]) for place, token in enumerate(ids[1:])]


def scored(server: LiveServer, prompt: object, **fields: object) -> Json:
    body = {"model": server.model, "prompt": prompt, "temperature": 0, "seed": 1234}
    body |= {"echo": True, "logprobs": 1, "max_tokens": 1} | fields
    response = httpx.post(f"{server.url}/v1/completions", json=body, timeout=PATIENCE)
    assert response.status_code == 200, response.text
    return response.json()


def tokens_of(server: LiveServer, text: str) -> list[int]:
    body = {"model": server.model, "prompt": text}
    return httpx.post(f"{server.url}/tokenize", json=body, timeout=PATIENCE).json()["tokens"]


def ids(length: int) -> list[int]:
    return [3 + (length * 31 + place * 7) % 250 for place in range(length)]


@pytest.mark.parametrize("length", [1, 2, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 50])
def test_a_prompts_numbers_are_those_of_a_direct_pass_cold_and_warm(
    server: LiveServer, reference: CausalLM, length: int
) -> None:
    """Cases A05 and D02: once computed, once where the prefix is cached."""
    prompt = ids(length)
    for _ in range(2):
        logprobs = scored(server, prompt, max_tokens=0)["choices"][0]["logprobs"]
        first, *others = logprobs["token_logprobs"]
        assert first is None
        np.testing.assert_allclose(others, expected(reference, prompt), atol=TOLERANCE)


def test_the_likeliest_beside_each_token_are_those_of_a_direct_pass(
    server: LiveServer, reference: CausalLM
) -> None:
    prompt = ids(40)
    best = forward(reference, prompt).max(axis=-1)[:-1]
    logprobs = scored(server, prompt, max_tokens=0)["choices"][0]["logprobs"]
    told = [max(top.values()) for top in logprobs["top_logprobs"][1:]]
    np.testing.assert_allclose(told, best, atol=TOLERANCE)


def test_a_batch_of_prompts_is_scored_like_each_alone(server: LiveServer) -> None:
    prompts = [ids(length) for length in (5, 33, 17, 60)]
    together = scored(server, prompts, max_tokens=0)["choices"]
    for choice, prompt in zip(together, prompts, strict=True):
        alone = scored(server, prompt, max_tokens=0)["choices"][0]
        assert choice["logprobs"] == alone["logprobs"]


def test_a_continuation_is_summed_as_a_harness_sums_it(
    server: LiveServer, reference: CausalLM
) -> None:
    context, continuation = ids(20), ids(7)
    choice = scored(server, [context + continuation])["choices"][0]
    told = sum(choice["logprobs"]["token_logprobs"][len(context) : -1])
    wanted = sum(expected(reference, context + continuation)[len(context) - 1 :])
    assert told == pytest.approx(wanted, abs=TOLERANCE)


@pytest.mark.parametrize(("context", "likely", "unlikely"), PAIRS)
def test_the_likelier_continuation_wins(
    smollm2: LiveServer, context: str, likely: str, unlikely: str
) -> None:
    start = len(tokens_of(smollm2, context))
    prompts = [tokens_of(smollm2, context + ending) for ending in (likely, unlikely)]
    choices = scored(smollm2, prompts)["choices"]
    sums = [sum(choice["logprobs"]["token_logprobs"][start:-1]) for choice in choices]
    assert sums[0] > sums[1]


def test_a_real_models_sum_is_that_of_a_direct_pass(
    smollm2: LiveServer, smollm2_path: Path
) -> None:
    context, continuation = "The capital of France is", " Paris, a city of light."
    prompt = tokens_of(smollm2, context + continuation)
    start = len(tokens_of(smollm2, context))
    told = scored(smollm2, prompt)["choices"][0]["logprobs"]["token_logprobs"][start:-1]
    wanted = expected(load_model(smollm2_path).model, prompt)[start - 1 :]
    np.testing.assert_allclose(told, wanted, atol=TOLERANCE)


def test_the_text_of_a_scored_prompt_is_the_prompt(smollm2: LiveServer) -> None:
    """Case A07, on a real vocabulary."""
    text = "Héllo wörld 😀 and"
    choice = scored(smollm2, text, max_tokens=8)["choices"][0]
    assert choice["text"].startswith(text)
    logprobs = choice["logprobs"]
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        if not token.startswith(("bytes:", "<|")):
            assert choice["text"][offset:].startswith(token)
