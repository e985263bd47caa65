"""Wrong usage of a command is told with that command's own usage."""

from collections.abc import Sequence

import pytest

from server.cli import main

Capture = pytest.CaptureFixture[str]


def told(arguments: Sequence[str], capsys: Capture) -> tuple[str, str]:
    """The first and the last line of what a wrong command line is answered with."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    first, *_, last = capsys.readouterr().err.splitlines()
    return first, last


@pytest.mark.parametrize(
    ("arguments", "command", "words"),
    [
        ("serve --prot 5", "serve", "unrecognized arguments: --prot; did you mean --port?"),
        ("serve --uds s --port 1", "serve", "argument --uds: cannot be used with"),
        ("serve 8000", "serve", "unrecognized arguments: 8000"),
        ("service print --prot=5", "service print", "--prot; did you mean --port?"),
        ("service print --uds s --port 1", "service print", "argument --uds: cannot be used with"),
        ("service status --port 1", "service status", "unrecognized arguments: --port"),
        ("bench serve --requets 4", "bench serve", "--requets; did you mean --requests?"),
        ("bench compare", "bench compare", "argument --server: give at least one"),
        ("generate --raww hi", "generate", "--raww; did you mean --raw?"),
        ("pull --now", "pull", "unrecognized arguments: --now"),
        ("top --onse", "top", "--onse; did you mean --once?"),
        ("doctor --host x", "doctor", "unrecognized arguments: --host"),
    ],
)
def test_wrong_usage_is_told_with_the_usage_of_its_command(
    arguments: str, command: str, words: str, capsys: Capture
) -> None:
    usage, error = told(arguments.split(), capsys)
    assert usage.startswith(f"usage: octavo {command}")
    assert error.startswith(f"octavo {command}: error: ")
    assert words in error


def test_what_is_like_no_flag_gets_no_guess(capsys: Capture) -> None:
    assert told(["serve", "--qwertz"], capsys)[1].endswith("unrecognized arguments: --qwertz")


@pytest.mark.parametrize("wrong", [["--api-kee", "my-secret"], ["--api-kee=my-secret"]])
def test_the_value_of_a_misspelled_flag_is_not_repeated(
    wrong: Sequence[str], capsys: Capture
) -> None:
    _, error = told(["serve", *wrong], capsys)
    assert error.endswith("--api-kee; did you mean --api-key?")
