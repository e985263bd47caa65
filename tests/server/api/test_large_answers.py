"""Answers of thousands of tokens are written beside the event loop, so that nobody waits for them."""

import json
import threading
from collections import Counter

import pytest

from server.api.workers import INLINE_TOKENS
from server.text.tokenizer import Tokenizer, TokenizerSource
from tests.support.fake_engine import FakeEngine
from tests.support.http_app import MODEL, completion, in_memory, make_app
from tests.support.tokenizer_families import family_json

PROMPT = [40 + i % 50 for i in range(INLINE_TOKENS * 3)]


class WatchedTokenizer(Tokenizer):
    """Counts the tokens that each thread asks for."""

    def __init__(self) -> None:
        definition = json.dumps(family_json("byte_level"))
        super().__init__(TokenizerSource("watched", definition, eos_token_ids=frozenset({2})))
        self.asked: Counter[str] = Counter()

    def token_bytes(self, token_id: int) -> bytes:
        self.asked[threading.current_thread().name] += 1
        return super().token_bytes(token_id)


ECHO = {"prompt": PROMPT, "max_tokens": 1, "echo": True, "logprobs": 3}
REQUESTS = [
    ("/v1/completions", completion(**ECHO)),
    ("/v1/completions", completion(**ECHO, n=3)),
    ("/v1/completions", completion(**ECHO, stream=True)),
    ("/tokenize", {"model": MODEL, "prompt": "x " * 2000, "return_token_strs": True}),
]


@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_the_event_loop_names_few_tokens_of_a_large_answer(path: str, body: object) -> None:
    tokenizer = WatchedTokenizer()
    app = make_app(tokenizer, FakeEngine(tokenizer, max_model_len=10_000))
    tokenizer.asked.clear()
    async with in_memory(app) as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    here = tokenizer.asked.pop(threading.current_thread().name, 0)
    assert here <= INLINE_TOKENS
    assert tokenizer.asked.total() >= len(PROMPT)
