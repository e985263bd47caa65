"""The pieces of a stream join to the whole text, and every piece is fit to be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.detokenizer import Detokenizer
from tests.support.tokenizer_families import BEGIN_ID, FAMILIES, TURN_ID, family

TOKENIZERS = {name: family(name) for name in FAMILIES}
each_family = pytest.mark.parametrize("name", FAMILIES)
any_ids = st.lists(st.integers(0, 320), max_size=24)
words = st.sampled_from([" leading", "a  b", "\n\n x", ",", "don 't", " ", "日本語", "😀", "é", ""])
texts = st.lists(words, max_size=6).map("".join)


def pieces(name: str, ids: list[int], prompt: list[int], *, skip_special: bool = True) -> list[str]:
    detokenizer = Detokenizer(TOKENIZERS[name], prompt, skip_special)
    return [*map(detokenizer.push, ids), detokenizer.flush()]


@each_family
@given(ids=any_ids, skip_special=st.booleans())
def test_the_pieces_of_any_ids_join_to_the_decoded_whole(
    name: str, ids: list[int], skip_special: bool
) -> None:
    joined = "".join(pieces(name, ids, [], skip_special=skip_special))
    assert joined == TOKENIZERS[name].decode(ids, skip_special=skip_special)


@each_family
@given(prompt=texts, answer=texts)
def test_the_pieces_after_a_prompt_are_what_the_whole_text_adds_to_it(
    name: str, prompt: str, answer: str
) -> None:
    tokenizer = TOKENIZERS[name]
    before = tokenizer.encode(prompt, add_special=True, parse_special=False)
    after = tokenizer.encode(answer, add_special=False, parse_special=False)
    whole = tokenizer.decode([*before, *after], skip_special=True)
    shown = tokenizer.decode(before, skip_special=True)
    assert shown + "".join(pieces(name, after, before)) == whole


@each_family
@given(prompt=any_ids, ids=any_ids)
def test_no_more_of_the_prompt_is_read_than_its_end(
    name: str, prompt: list[int], ids: list[int]
) -> None:
    visible = [token_id for token_id in prompt if TOKENIZERS[name].token_bytes(token_id)][-16:]
    assert pieces(name, ids, visible * 3) == pieces(name, ids, visible)


@each_family
@given(text=texts)
def test_a_character_over_several_tokens_comes_whole(name: str, text: str) -> None:
    ids = TOKENIZERS[name].encode(text, add_special=False, parse_special=False)
    shown = pieces(name, ids, [])
    assert "\ufffd" not in "".join(shown)
    assert "".join(shown).strip(" ") == text.strip(" ")


@each_family
def test_a_leading_space_after_a_prompt_stays(name: str) -> None:
    """Case B05."""
    tokenizer = TOKENIZERS[name]
    prompt = tokenizer.encode("the", add_special=True, parse_special=False)
    ids = [i for i in range(tokenizer.vocab_size) if tokenizer.token_bytes(i) == b" the"]
    assert pieces(name, ids, prompt) == [" the", ""]


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_the_space_that_encoding_put_before_a_text_is_dropped_at_its_start(name: str) -> None:
    ids = TOKENIZERS[name].encode("the", add_special=False, parse_special=False)
    assert pieces(name, ids, [BEGIN_ID]) == ["the", ""]


@each_family
def test_a_character_that_was_cut_off_shows_once_at_the_end(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode("😀", add_special=False, parse_special=False)[:-1]
    shown = pieces(name, ids, [])
    assert shown[-1] == "\ufffd"
    assert "".join(shown).strip() == "\ufffd"


@each_family
def test_invalid_bytes_hold_nothing_up(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    by_bytes = {tokenizer.token_bytes(i): i for i in range(4, 260)}
    ids = [by_bytes[bytes([byte])] for byte in (0x80, 0x80, 0x61)]
    assert pieces(name, ids, []) == ["\ufffd", "\ufffd", "a", ""]


@each_family
def test_a_character_begun_by_the_prompt_is_finished_by_the_answer(name: str) -> None:
    ids = TOKENIZERS[name].encode("é😀", add_special=False, parse_special=False)
    assert "".join(pieces(name, ids[-2:], ids[:-2])) == "😀"


@each_family
def test_a_control_token_shows_only_when_asked_for(name: str) -> None:
    assert pieces(name, [TURN_ID], [BEGIN_ID]) == ["", ""]
    assert pieces(name, [TURN_ID], [BEGIN_ID], skip_special=False) == ["<|turn|>", ""]


def test_a_token_is_looked_up_once_however_long_the_text_grows() -> None:
    class Counting:
        strips_first_space = False
        lookups = 0

        def visible_bytes(self, token_id: int, skip_special: bool) -> bytes:
            self.lookups += 1
            return TOKENIZERS["byte_level"].visible_bytes(token_id, skip_special)

    counting = Counting()
    detokenizer = Detokenizer(counting)  # type: ignore[arg-type]
    for token_id in range(4, 204):
        detokenizer.push(token_id)
    assert counting.lookups == 200
