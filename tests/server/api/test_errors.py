"""Every error has exactly one answer."""

from collections.abc import Iterator

import pytest

from engine.errors import EngineError, Overloaded
from server.api.error_response import ANSWERS, answer_for, envelope_for, error_event, is_known
from server.contract.operations import REFUSALS
from server.errors import ServerError, WrongMethod


def leaves_of(root: type[Exception]) -> Iterator[type[Exception]]:
    yield root
    for child in root.__subclasses__():
        yield from leaves_of(child)


def reachable() -> set[type[Exception]]:
    """Every class of error that may reach a client: all of the project's but the two roots."""
    found = {*leaves_of(EngineError), *leaves_of(ServerError)} - {EngineError, ServerError}
    return {kind for kind in found if not kind.__module__.startswith("tests")}


def test_every_error_of_the_engine_and_the_server_has_its_own_answer() -> None:
    assert set(ANSWERS) == reachable()


def test_every_status_is_documented() -> None:
    documented = {refusal.status for refusal in REFUSALS.values()}
    # A 405 belongs to no operation, and a slow reader's stream has had its headers.
    assert {answer.status for answer in ANSWERS.values()} - {405} == documented


def test_an_unforeseen_error_tells_nothing_of_itself() -> None:
    error = KeyError("secret of /etc/passwd")
    assert not is_known(error)
    assert answer_for(error).status == 500
    text = envelope_for(error).model_dump_json()
    assert "secret" not in text
    assert "KeyError" not in text


def test_a_new_kind_of_known_error_gets_its_parents_answer() -> None:
    class QueueFull(Overloaded):
        pass

    assert answer_for(QueueFull("full")) == ANSWERS[Overloaded]


def test_an_error_event_is_one_event_of_ascii() -> None:
    event = error_event(ServerError("ünï\u2028code\n\n"))
    assert event.isascii()
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2


@pytest.mark.parametrize("kind", sorted(reachable(), key=lambda kind: kind.__name__))
def test_no_envelope_names_a_python_class(kind: type[Exception]) -> None:
    error = kind("words", "GET") if kind is WrongMethod else kind("words")
    envelope = envelope_for(error)
    assert kind.__name__ not in envelope.model_dump_json()
    assert envelope.error.message == "words"
