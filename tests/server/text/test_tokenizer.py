"""Encoding and decoding agree with the tokenizers package, and control tokens obey their rules."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from engine.errors import InvalidRequest, ModelError
from server.text.tokenizer import Tokenizer, TokenizerSource
from tests.support.tokenizer_families import (
    BEGIN_ID,
    END_ID,
    FAMILIES,
    SPECIAL,
    THINK,
    TURN_ID,
    family,
    family_json,
)

TOKENIZERS = {name: family(name) for name in FAMILIES}
ORACLES = {name: Backend.from_str(json.dumps(family_json(name))) for name in FAMILIES}
PLAIN_TEXTS = (
    " leading",
    "a  b",
    "\n\n x",
    ",",
    "don 't",
    "",
    " ",
    "  ",
    "日本語 😀 é",
    "the end.",
)

fragments = st.sampled_from([*SPECIAL, THINK, *PLAIN_TEXTS, "<s", "s>", "<|turn", "▁", "<0x41>"])
texts = st.lists(fragments | st.text(max_size=6), max_size=6).map("".join)
valid_texts = texts.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
each_family = pytest.mark.parametrize("name", FAMILIES)


@each_family
@given(text=valid_texts)
def test_control_tokens_in_a_text_are_read_as_the_tokenizers_package_reads_them(
    name: str, text: str
) -> None:
    ids = TOKENIZERS[name].encode(text, add_special=False, parse_special=True)
    assert ids == ORACLES[name].encode(text, add_special_tokens=False).ids


@each_family
@given(text=valid_texts)
def test_plain_encoding_never_yields_a_control_token(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text, add_special=False, parse_special=False)
    assert not any(token_id in tokenizer.special_tokens for token_id in ids)


@each_family
@given(text=valid_texts)
def test_decoding_gives_the_encoded_text_back(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    for marker in ("▁", "<0x41>", THINK):  # SentencePiece cannot tell these from its own
        text = text.replace(marker, "")
    text = text.lstrip(" ") if name == "mistral" else text  # it adds no space where there is one
    ids = tokenizer.encode(text, add_special=True, parse_special=False)
    assert tokenizer.decode(ids, skip_special=True) == text


@each_family
@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_decoding_agrees_with_the_tokenizers_package(name: str, text: str) -> None:
    ids = TOKENIZERS[name].encode(text, add_special=True, parse_special=False)
    assert TOKENIZERS[name].decode(ids, skip_special=True) == ORACLES[name].decode(ids)


@each_family
def test_the_bytes_of_the_tokens_join_to_the_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode("don 't 日本 😀", add_special=True, parse_special=False)
    data = b"".join(map(tokenizer.token_bytes, ids))
    assert data.removeprefix(b" ").decode() == "don 't 日本 😀"


@each_family
def test_a_text_gets_one_begin_token_where_the_model_wants_one(name: str) -> None:
    ids = TOKENIZERS[name].encode("the", add_special=True, parse_special=True)
    assert ids.count(BEGIN_ID) == 1
    assert ids[0] == BEGIN_ID


@each_family
def test_a_begin_token_that_the_text_starts_with_is_not_doubled(name: str) -> None:
    ids = TOKENIZERS[name].encode("<s>the", add_special=True, parse_special=True)
    assert ids.count(BEGIN_ID) == 1
    assert ids[0] == BEGIN_ID


@each_family
def test_a_model_that_wants_no_begin_token_gets_none(name: str) -> None:
    ids = family(name, adds_bos=False).encode("the", add_special=True, parse_special=True)
    assert BEGIN_ID not in ids


def test_an_unstated_begin_token_follows_the_definitions_own_template() -> None:
    definition = family_json("llama")
    template = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [BEGIN_ID], "tokens": ["<s>"]}},
    }
    named = {"bos_token": "<s>"}
    silent = Tokenizer(TokenizerSource("x", json.dumps(definition), named_tokens=named))
    definition["post_processor"] = template
    adding = Tokenizer(TokenizerSource("x", json.dumps(definition), named_tokens=named))
    assert (silent.adds_bos, adding.adds_bos) == (False, True)


@each_family
def test_an_empty_text_has_no_tokens_but_the_begin_token(name: str) -> None:
    assert TOKENIZERS[name].encode("", add_special=True, parse_special=True) == [BEGIN_ID]
    assert TOKENIZERS[name].encode("", add_special=False, parse_special=True) == []


@each_family
@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "<|turn|>\ud83d"])
def test_a_lone_surrogate_is_refused_by_its_place(name: str, text: str) -> None:
    for parse_special in (False, True):
        with pytest.raises(InvalidRequest, match="lone surrogate"):
            TOKENIZERS[name].encode(text, add_special=True, parse_special=parse_special)


@each_family
def test_control_tokens_have_a_spelling_but_no_bytes(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    assert tokenizer.token_bytes(TURN_ID) == b""
    assert tokenizer.token_text(TURN_ID) == "<|turn|>"
    assert tokenizer.decode([TURN_ID], skip_special=True) == ""
    assert tokenizer.decode([TURN_ID], skip_special=False) == "<|turn|>"


@each_family
def test_an_added_token_that_is_no_control_token_is_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    (token_id,) = tokenizer.encode_parts([THINK])
    assert tokenizer.token_bytes(token_id) == b"<think>"
    assert tokenizer.decode([token_id], skip_special=True) == THINK
    assert token_id == tokenizer.vocab_size - 1


@each_family
def test_ids_that_name_no_token_are_no_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    assert tokenizer.token_bytes(tokenizer.vocab_size) == b""
    assert tokenizer.token_bytes(10**9) == b""


@each_family
def test_every_named_end_token_ends_a_text(name: str) -> None:
    tokenizer = family(name, eos_token_ids=frozenset({TURN_ID}))
    assert tokenizer.eos_token_ids == {END_ID, TURN_ID}
    assert tokenizer.bos_token_id == BEGIN_ID


def test_an_unknown_kind_of_vocabulary_is_named() -> None:
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    definition = {**family_json("llama"), "decoder": decoder}
    with pytest.raises(ModelError, match=r"WordPiece.*supported"):
        Tokenizer(TokenizerSource("words.json", json.dumps(definition)))


@pytest.mark.parametrize("definition", ["", "[]", '{"added_tokens": 3}', '{"decoder": null}'])
def test_a_broken_definition_is_one_line_that_names_the_file(definition: str) -> None:
    with pytest.raises(ModelError, match=r"^some/tokenizer.json: ") as caught:
        Tokenizer(TokenizerSource("some/tokenizer.json", definition))
    assert "\n" not in str(caught.value)


def test_space_around_a_stripping_control_token_belongs_to_it() -> None:
    definition = family_json("byte_level")
    added = [dict(token) for token in definition["added_tokens"]]  # type: ignore[attr-defined]
    added[TURN_ID] |= {"lstrip": True, "rstrip": True}
    text = json.dumps({**definition, "added_tokens": added})
    ids = Tokenizer(TokenizerSource("x", text)).encode(
        "the \n <|turn|>  the", add_special=False, parse_special=True
    )
    assert ids == Backend.from_str(text).encode("the \n <|turn|>  the").ids
