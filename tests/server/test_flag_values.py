"""What may stand behind a flag, and what is refused."""

from argparse import ArgumentTypeError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.flag_values import memory_size, not_empty, number, one_of, origin, size, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("512B", 512),
        ("2KiB", 2048),
        ("4mib", 4 << 20),
        ("1.5 GiB", 3 << 29),
        ("1GB", 1 << 30),
        ("2T", None),
    ],
)
def test_sizes_are_read_in_powers_of_1024(text: str, expected: int | None) -> None:
    if expected is None:
        with pytest.raises(ArgumentTypeError):
            size(text)
    else:
        assert size(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "abc", "0.1B", "1XiB", "nan", "1e3", "40%"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        size(text)


@given(st.integers(1, 100), st.integers(1, 2**45))
def test_a_share_is_of_what_is_available(percent: int, available: int) -> None:
    assert memory_size(f"{percent}%").of(available) == available * percent // 100


@pytest.mark.parametrize("text", ["0%", "101%", "-5%", "%", "five%"])
def test_a_share_lies_between_nothing_and_everything(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        memory_size(text)


def test_a_size_in_bytes_does_not_depend_on_what_is_available() -> None:
    assert memory_size("1GiB").of(5) == 1 << 30


@given(st.integers(-(10**9), 10**9))
def test_whole_numbers_keep_to_their_range(value: int) -> None:
    if 1 <= value <= 65535:
        assert whole(1, 65535)(str(value)) == value
    else:
        with pytest.raises(ArgumentTypeError, match="1 to 65535"):
            whole(1, 65535)(str(value))


@pytest.mark.parametrize("text", ["", "abc", "1.5", "1e3", "0x10", "٣", "1_000"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="whole number"):
        whole(0)(text)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "x", "-0.1", "2.1", ""])
def test_numbers_are_finite_and_in_their_range(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="from 0 to 2"):
        number(0, 2)(text)


def test_a_bound_may_be_left_out_of_the_range() -> None:
    assert number(0)("0") == 0
    with pytest.raises(ArgumentTypeError, match="above 0"):
        number(0, above=True)("0")


def test_words_are_read_in_any_case() -> None:
    assert one_of("debug", "info")("INFO") == "info"
    with pytest.raises(ArgumentTypeError, match="none of debug, info"):
        one_of("debug", "info")("loud")


def test_nothing_is_not_a_name() -> None:
    with pytest.raises(ArgumentTypeError, match="must not be empty"):
        not_empty(" ")


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("*", "*"),
        ("https://Chat.Example", "https://chat.example"),
        ("https://chat.example:443", "https://chat.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:80", "http://[::1]"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
    ],
)
def test_an_origin_is_spelled_as_browsers_send_it(text: str, sent: str) -> None:
    assert origin(text) == sent


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "chat.example",
        "https://",
        "https://a.example/",
        "https://a.example/x",
        "https://*.a",
    ],
)
def test_an_origin_that_no_browser_sends_is_refused(text: str) -> None:
    """Case F09: it would be taken and change nothing."""
    with pytest.raises(ArgumentTypeError, match="no origin"):
        origin(text)
