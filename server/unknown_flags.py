"""What is said of words on a command line that a command does not know."""

from argparse import ArgumentParser
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

_ALIKE = 0.7  # of 1, as difflib measures it: a letter or two are wrong


def refuse_unknown(parser: ArgumentParser, words: Sequence[str]) -> NoReturn:
    """Ends the process with the parser's usage, the unknown flags, and those that may be meant.

    Values are left out where there are flags: one may be a key.
    """
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    known = tuple(parser._option_string_actions)  # argparse has no public list
    meant = [close for flag in flags for close in get_close_matches(flag, known, 1, _ALIKE)]
    hint = f"; did you mean {', '.join(meant)}?" if meant else ""
    parser.error(f"unrecognized arguments: {' '.join(flags or words)}{hint}")
