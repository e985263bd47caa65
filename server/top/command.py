"""`octavo top`: its flags. The view itself is imported once it is asked for.

octavo top http://127.0.0.1:8000
"""

import os
from argparse import ArgumentParser, Namespace

from server.flag_reading import API_KEY_VARIABLE, key_to_send
from server.standard_output import standard_output

DEFAULT_URL = "http://127.0.0.1:8000"


def add_top(parser: ArgumentParser) -> None:
    parser.add_argument(
        "url",
        nargs="?",
        default=DEFAULT_URL,
        metavar="URL",
        help=f"the server (default: {DEFAULT_URL})",
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"the server's key (default: the environment variable {API_KEY_VARIABLE})",
    )
    parser.add_argument("--once", action="store_true", help="print one frame and end")
    parser.add_argument("--json", action="store_true", help="print snapshots as JSON, one a line")
    parser.set_defaults(command=_top)


def _top(flags: Namespace) -> int:
    """Raises FlagError, WatchError, OutputError, ReaderLeft."""
    from server.top.snapshot_reader import read_snapshots  # noqa: PLC0415
    from server.top.view import show  # noqa: PLC0415

    key = key_to_send(flags.api_key, os.environ)
    snapshots = read_snapshots(flags.url, key)
    with standard_output() as out:
        return show(snapshots, out, os.environ, once=flags.once, as_json=flags.json)
