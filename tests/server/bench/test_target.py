from argparse import ArgumentTypeError

import pytest

from server.bench.load import PlannedRequest
from server.bench.target import Target, base_url, request_body

REQUEST = PlannedRequest("red stone", 7)


def test_a_body_asks_for_a_greedy_stream_of_fixed_length_with_counts() -> None:
    assert request_body(Target("http://x", "m"), REQUEST) == {
        "model": "m",
        "prompt": "red stone",
        "max_tokens": 7,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }


def test_extra_fields_are_added_replaced_and_taken_out() -> None:
    target = Target("http://x", "m", extra={"ignore_eos": None, "max_tokens": 3, "min_p": 0.1})
    body = request_body(target, REQUEST)
    assert "ignore_eos" not in body
    assert (body["max_tokens"], body["min_p"]) == (3, 0.1)


def test_a_chat_has_one_message_of_the_user() -> None:
    target = Target("http://x", "m", chat=True)
    body = request_body(target, REQUEST)
    assert body["messages"] == [{"role": "user", "content": "red stone"}]
    assert "prompt" not in body
    assert target.endpoint == "http://x/v1/chat/completions"


def test_a_key_travels_as_a_bearer_token() -> None:
    assert Target("http://x", "m", "k").headers == {"authorization": "Bearer k"}
    assert Target("http://x", "m").headers == {}


@pytest.mark.parametrize("text", ["http://x:1", "http://x:1/", "http://x:1/v1", " http://x:1/v1/ "])
def test_an_address_may_end_in_a_slash_or_in_v1(text: str) -> None:
    assert base_url(text) == "http://x:1"


@pytest.mark.parametrize("text", ["x:1", "http://", "ftp://x", "http://a b", "http://x?y=1", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="no address such as"):
        base_url(text)
