"""Strict JSON agrees with the standard parser on what is JSON, and refuses the rest."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from server.api.strict_json import MAX_DEPTH, parse_object

# No surrogate survives in a text.
texts = st.text(st.characters(exclude_categories=("Cs",)))
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    leaves.filter(lambda leaf: leaf not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


@settings(max_examples=25)
@given(value=st.dictionaries(texts, values), ascii_only=st.booleans())
def test_every_object_is_read_as_it_was_written(
    value: dict[str, object], *, ascii_only: bool
) -> None:
    assert parse_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(body=st.binary(max_size=200))
def test_any_bytes_give_an_object_or_a_refusal(body: bytes) -> None:
    try:
        assert isinstance(parse_object(body), dict)
    except InvalidRequest as error:
        assert str(error).startswith("The request body")  # noqa: PT017 - both ends are right


def nested(depth: int) -> bytes:
    return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


def test_the_deepest_nesting_is_accepted() -> None:
    assert parse_object(nested(MAX_DEPTH))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 1100, 100_000])
def test_one_level_more_is_refused(depth: int) -> None:
    with pytest.raises(InvalidRequest, match="nested deeper"):
        parse_object(nested(depth))


def test_many_shallow_containers_are_accepted() -> None:
    assert parse_object(b'{"a": [' + b",".join([b"[]"] * 5000) + b"]}")


@pytest.mark.parametrize("text", [r"\ud800", r"\uDC00", r"\ud83dx", r"\ude00\ud83d"])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        parse_object(f'{{"a": [{{"b": "{text}"}}]}}'.encode())


def test_an_escaped_backslash_before_a_u_is_no_surrogate() -> None:
    assert parse_object(rb'{"a": "\\ud800"}') == {"a": r"\ud800"}


def test_the_repeated_key_is_named() -> None:
    with pytest.raises(InvalidRequest, match="key twice: 'b'"):
        parse_object(b'{"a": 1, "b": 2, "b": 3}')
