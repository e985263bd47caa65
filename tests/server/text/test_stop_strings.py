"""A text ends before the stop string that begins earliest in it, however the text arrives."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.text.stop_strings import StopStrings

short = st.text("ab.", max_size=12)
stops = st.lists(st.text("ab.", min_size=1, max_size=5), max_size=4)


def shown(pieces: list[str], stop: list[str]) -> tuple[str, bool]:
    """What a reader of the stream gets, and whether a stop ended it."""
    watcher = StopStrings(stop)
    text = ""
    for piece in pieces:
        safe, hit = watcher.push(piece)
        text += safe
        if hit:
            return text, True
    return text + watcher.flush(), watcher.hit


def whole(text: str, stop: list[str]) -> tuple[str, bool]:
    """The oracle: search the whole text."""
    places = [text.index(one) for one in stop if one in text]
    return (text[: min(places)], True) if places else (text, False)


@given(st.lists(short, max_size=8), stops)
@example(["a", "ab", "b"], ["aab"])
@example(["abb", "a"], ["abba", "bb"])
def test_the_shown_text_is_that_of_a_search_in_the_whole_text(
    pieces: list[str], stop: list[str]
) -> None:
    assert shown(pieces, stop) == whole("".join(pieces), stop)


@given(short, stops)
def test_the_cut_into_pieces_changes_nothing(text: str, stop: list[str]) -> None:
    assert shown([text], stop) == shown(list(text), stop)


@given(st.lists(short, max_size=8), stops)
def test_nothing_of_a_stop_is_ever_shown(pieces: list[str], stop: list[str]) -> None:
    watcher = StopStrings(stop)
    seen = text = ""
    for piece in pieces:
        seen += piece
        text += watcher.push(piece)[0]
        assert whole(seen, stop)[0].startswith(text)


def test_a_stop_that_overlaps_itself_is_found() -> None:
    assert shown(["a", "a", "a", "b"], ["aab"]) == ("a", True)


def test_a_stop_over_many_tokens_is_cut_whole() -> None:
    assert shown([" ABC", "DE", "FGH", "IJK"], ["DEFGHIJ"]) == (" ABC", True)


def test_text_goes_on_as_soon_as_it_cannot_be_a_stop() -> None:
    watcher = StopStrings(["END"])
    assert watcher.push("the E") == ("the ", False)
    assert watcher.push("N") == ("", False)
    assert watcher.push("T") == ("ENT", False)
    assert watcher.flush() == ""


def test_the_first_stop_in_the_text_wins_not_the_first_in_the_list() -> None:
    assert shown(["one. two, three"], ["two", ".", ","]) == ("one", True)


def test_a_stop_waits_for_a_longer_one_that_began_before_it() -> None:
    watcher = StopStrings(["abcd", "bc"])
    assert watcher.push("xabc") == ("x", False)
    assert watcher.push("d") == ("", True)
    watcher = StopStrings(["abcd", "bc"])
    assert watcher.push("xabc") == ("x", False)
    assert watcher.push("e") == ("a", True)


def test_a_stop_that_completed_while_another_was_awaited_counts_at_the_end() -> None:
    watcher = StopStrings(["abcd", "bc"])
    watcher.push("xabc")
    assert (watcher.flush(), watcher.hit) == ("a", True)


def test_what_comes_after_a_stop_is_dropped() -> None:
    watcher = StopStrings(["."])
    assert watcher.push("one. two") == ("one", True)
    assert watcher.push(" three") == ("", True)
    assert watcher.flush() == ""


def test_without_stops_all_text_passes_at_once() -> None:
    assert StopStrings([]).push("text") == ("text", False)


def test_a_long_stop_that_almost_repeats_costs_no_more_than_its_length() -> None:
    stop = "a" * 3000 + "b"
    assert shown(["a" * 5000, "b"], [stop]) == ("a" * 2000, True)


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopStrings([""])
