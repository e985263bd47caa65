"""The default model's own tokenizer, out of its GGUF file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.chat_template import render_chat
from server.text.detokenizer import Detokenizer
from server.text.gguf_metadata import read_gguf_metadata
from server.text.tokenizer import Tokenizer
from server.text.tokenizer_loading import load_tokenizer
from tests.support.naive_bpe import NaiveBpe

IM_START, IM_END = 1, 2
TEXTS = (
    "Hello, world!",
    "In 2024, 3.14159 and 1,000,000 were numbers.",
    " leading  double\n\n\tspaces \r\n",
    "don't I'LL we've",
    "naïve café 日本語 😀👍🏽 ﷽",
    "def f(x):\n    return x**2  # π",
    "<|im_start|>user\nhi<|im_end|>",
)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    return load_tokenizer(smollm2_path)


@pytest.fixture(scope="module")
def naive(smollm2_path: Path) -> NaiveBpe:
    metadata = read_gguf_metadata(smollm2_path)
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    return NaiveBpe([str(token) for token in tokens], [str(merge) for merge in merges])


@pytest.mark.parametrize("text", TEXTS)
def test_plain_text_is_encoded_as_the_merges_say(
    tokenizer: Tokenizer, naive: NaiveBpe, text: str
) -> None:
    ids = tokenizer.encode(text, add_special=True, parse_special=False)
    assert ids == naive.encode(text)
    assert tokenizer.decode(ids, skip_special=True) == text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=24))
def test_any_text_is_encoded_as_the_merges_say_and_comes_back(
    tokenizer: Tokenizer, naive: NaiveBpe, text: str
) -> None:
    ids = tokenizer.encode(text, add_special=True, parse_special=False)
    assert ids == naive.encode(text)
    assert tokenizer.decode(ids, skip_special=True) == text or not naive.knows(text)


@given(st.lists(st.integers(0, 49151), max_size=16))
def test_the_pieces_of_any_ids_join_to_their_text(tokenizer: Tokenizer, ids: list[int]) -> None:
    detokenizer = Detokenizer(tokenizer)
    joined = "".join(map(detokenizer.push, ids)) + detokenizer.flush()
    assert joined == tokenizer.decode(ids, skip_special=True)


def test_a_chat_is_what_the_model_was_taught(tokenizer: Tokenizer) -> None:
    ids = render_chat(
        tokenizer,
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        add_generation_prompt=True,
        continue_final=False,
        template_kwargs={},
    )
    expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    assert tokenizer.decode(ids, skip_special=False) == f"{expected}<|im_start|>assistant\n"
    assert (ids.count(IM_START), ids.count(IM_END)) == (3, 2)


def test_the_model_ends_with_its_end_of_turn_and_starts_with_nothing(tokenizer: Tokenizer) -> None:
    assert tokenizer.eos_token_ids == {IM_END}
    assert not tokenizer.adds_bos
    assert tokenizer.vocab_size == 49152
