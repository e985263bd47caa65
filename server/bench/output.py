"""Where a bench puts what it found: the standard output, and files checked before hours of measuring."""

import json
import os
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from server.flag_values import not_empty
from server.flags import Flag, FlagGroup
from server.standard_output import OutputError, ReaderLeft, standard_output


def json_file(text: str) -> Path:
    return _writable(text)


def png_file(text: str) -> Path:
    path = _writable(text)
    if path.suffix.lower() != ".png":
        raise ArgumentTypeError(f"{text!r} does not end in .png")
    return path


Tell = Callable[[str], None]  # prints a text at once


@contextmanager
def telling(*, to_the_end: bool = True) -> Iterator[Tell]:
    """For a block that tells its texts and then writes its files.

    What cannot be printed is raised when the block has ended, or at once where nothing but the
    text is wanted and it need not go on `to_the_end`: OutputError, or ReaderLeft.
    """
    faults: list[OutputError | ReaderLeft] = []

    def tell(text: str) -> None:
        if faults:
            return
        try:
            with standard_output() as out:
                print(text, file=out, flush=True)
        except (OutputError, ReaderLeft) as fault:
            if not to_the_end:
                raise
            faults.append(fault)

    yield tell
    for fault in faults:
        raise fault


def write_json(path: Path, value: object) -> None:
    """Raises OutputError where the file cannot be written."""
    try:
        path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error


def _writable(text: str) -> Path:
    if text == "-":
        raise ArgumentTypeError("'-' is not a file: the table goes to the standard output")
    path = Path(not_empty(text)).expanduser()
    try:
        if path.is_dir():
            raise ArgumentTypeError(f"{text!r} is a folder")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ArgumentTypeError(f"{text!r} cannot be written")
    except OSError as error:
        raise ArgumentTypeError(f"{text[:80]!r}: {error.strerror}") from error
    return path


JSON_FLAG = Flag("--json", "write all that was measured to this file", json_file, "FILE")
PLOT_FLAG = Flag("--plot", "draw it into this file (needs matplotlib)", png_file, "FILE.png")
OUTPUT_FLAGS = FlagGroup("output", (JSON_FLAG, PLOT_FLAG))
