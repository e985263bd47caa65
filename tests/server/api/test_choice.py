"""A choice's text is the decoded whole, cut before the earliest stop, however tokens split it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.token_event import FinishReason, TokenEvent
from server.api.choice import Choice, ChoiceDelta
from server.api.text_rules import Prompt, TextRules
from server.api.token_entry import token_name
from tests.support.fake_engine import logprob_of
from tests.support.tokenizer_families import FAMILIES, family

TOKENIZERS = {name: family(name) for name in FAMILIES}

any_ids = st.lists(st.integers(0, 300), max_size=30)
letters = st.text(st.sampled_from("ab \né😀"), min_size=1, max_size=12)
few_stops = st.lists(st.text(st.sampled_from("ab é"), min_size=1, max_size=3), max_size=3)


def run(
    choice: Choice, ids: Sequence[int], prompt: Sequence[int] = (), *, ends_at_eos: bool = False
) -> list[ChoiceDelta]:
    """Feeds a whole sequence; an eos comes as an end of its own, a limit with the last token."""
    deltas: list[ChoiceDelta] = []
    scores = (None, *(logprob_of(i, 0) for i in prompt[1:])) if prompt else None
    for place, token_id in enumerate(ids):
        last = place == len(ids) - 1 and not ends_at_eos
        event = TokenEvent(
            "r",
            0,
            token_id=token_id,
            logprob=logprob_of(token_id, 0),
            prompt_logprobs=scores if place == 0 else None,
            finish_reason=FinishReason.LENGTH if last else None,
        )
        deltas.append(choice.push(event))
        if choice.finish_reason is not None:
            return deltas
    end = TokenEvent("r", 0, token_id=2, finish_reason=FinishReason.STOP, prompt_logprobs=scores)
    return [*deltas, choice.push(end)]


def text_of(deltas: Sequence[ChoiceDelta]) -> str:
    return "".join(delta.text for delta in deltas)


def cut(text: str, stops: Sequence[str]) -> str:
    """The oracle: the text up to the stop that begins first."""
    found = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(found)] if found else text


@pytest.mark.parametrize("name", FAMILIES)
@given(ids=any_ids, ends_at_eos=st.booleans())
def test_any_ids_become_their_decoded_text(name: str, ids: list[int], *, ends_at_eos: bool) -> None:
    tokenizer = TOKENIZERS[name]
    deltas = run(Choice(0, tokenizer, Prompt(()), TextRules()), ids, ends_at_eos=ends_at_eos)
    assert text_of(deltas) == tokenizer.decode(ids, skip_special=True)


@given(text=letters, stops=few_stops, ends_at_eos=st.booleans())
def test_the_text_ends_before_the_earliest_stop(
    text: str, stops: list[str], *, ends_at_eos: bool
) -> None:
    tokenizer = TOKENIZERS["byte_level"]
    ids = tokenizer.encode(text, add_special=False, parse_special=False)
    choice = Choice(0, tokenizer, Prompt(()), TextRules(stops=tuple(stops)))
    deltas = run(choice, ids, ends_at_eos=ends_at_eos)
    assert text_of(deltas) == cut(text, stops)
    assert choice.stopped_by_text == any(stop in text for stop in stops)
    stopped = choice.stopped_by_text or ends_at_eos
    assert deltas[-1].finish_reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)


@given(text=letters, stops=few_stops)
def test_no_text_is_taken_back(text: str, stops: list[str]) -> None:
    """What a delta shows stays: each joined beginning is a beginning of the end."""
    tokenizer = TOKENIZERS["byte_level"]
    ids = tokenizer.encode(text, add_special=False, parse_special=False)
    deltas = run(Choice(0, tokenizer, Prompt(()), TextRules(stops=tuple(stops))), ids)
    assert all(delta.finish_reason is None for delta in deltas[:-1])
    assert deltas[-1].finish_reason is not None


@given(prompt=letters, text=letters, stops=few_stops, echo=st.booleans())
def test_entries_stand_where_their_tokens_begin(
    prompt: str, text: str, stops: list[str], *, echo: bool
) -> None:
    tokenizer = TOKENIZERS["byte_level"]
    before, ids = (
        tokenizer.encode(part, add_special=False, parse_special=False) for part in (prompt, text)
    )
    rules = TextRules(stops=tuple(stops), echo=echo, logprobs=True)
    deltas = run(Choice(0, tokenizer, Prompt(tuple(before), prompt), rules), ids, before)
    whole = text_of(deltas)
    entries = [entry for delta in deltas for entry in delta.entries]
    assert whole == (prompt if echo else "") + cut(text, stops)
    assert [e.offset for e in entries] == sorted(e.offset for e in entries)
    for entry in entries:
        name = token_name(tokenizer, entry.token_id)
        if not name.startswith("bytes:"):
            shown = whole[entry.offset : entry.offset + len(name)]
            assert shown
            assert name.startswith(shown)
    if not any(stop in text for stop in stops):
        assert [entry.token_id for entry in entries] == [*(before if echo else []), *ids]


@given(text=letters, min_tokens=st.integers(0, 14))
def test_no_stop_before_min_tokens(text: str, min_tokens: int) -> None:
    tokenizer = TOKENIZERS["byte_level"]
    ids = tokenizer.encode(text, add_special=False, parse_special=False)
    rules = TextRules(stops=("a",), min_tokens=min_tokens)
    choice = Choice(0, tokenizer, Prompt(()), rules)
    run(choice, ids)
    assert not choice.stopped_by_text or choice.num_tokens >= min_tokens
