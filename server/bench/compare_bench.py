"""`octavo bench compare`: the same loads against several servers, in turns."""

import sys
from argparse import ArgumentTypeError, Namespace

from server.bench.bench import Bench
from server.bench.client_key import SHOWN_DEFAULT
from server.bench.compare_loads import LOADS, ComparedLoad
from server.bench.flag_parsers import json_object, named, sendable
from server.bench.output import OUTPUT_FLAGS
from server.bench.target import base_url
from server.flag_values import not_empty, number, whole
from server.flags import Flag, FlagGroup


def chosen_loads(text: str) -> tuple[ComparedLoad, ...]:
    """Names with commas between them, or "all"; in the order of LOADS."""
    names = {load.name for load in LOADS} if text == "all" else set(text.split(","))
    unknown = names - {load.name for load in LOADS}
    if unknown:
        known = ", ".join(load.name for load in LOADS)
        raise ArgumentTypeError(f"{min(unknown)!r} is none of {known}")
    return tuple(load for load in LOADS if load.name in names)


SERVER_FLAGS = FlagGroup(
    "servers",
    (
        Flag(
            "--server",
            "a server to compare, given once for each; ratios are to the first",
            named(base_url),
            "NAME=URL",
            repeats=True,
        ),
        Flag(
            "--model",
            "the model to ask this server for, where it is not the first that it lists",
            named(sendable),
            "NAME=MODEL",
            repeats=True,
        ),
        Flag(
            "--api-key",
            "the key of this server",
            named(not_empty),
            "NAME=KEY",
            shown_default=f"{SHOWN_DEFAULT}, for every server that has none here",
            repeats=True,
        ),
        Flag(
            "--extra",
            "merged into the body of each request to this server; null takes a field out",
            named(json_object),
            "NAME=JSON",
            repeats=True,
        ),
        Flag(
            "--timeout", "the longest a request may take", number(0, above=True), "SECONDS", "900"
        ),
    ),
)

LOAD_FLAGS = FlagGroup(
    "loads",
    (
        Flag(
            "--loads",
            "which, with commas between them: "
            + "; ".join(f"{load.name}: {load.says}" for load in LOADS),
            chosen_loads,
            "LOADS",
            default="all",
        ),
        Flag("--rounds", "how often each load meets each server", whole(1), "N", "3"),
        Flag(
            "--seed",
            "the same seed gives the same prompts",
            whole(0),
            "N",
            shown_default="a new one for each run, which is printed",
        ),
    ),
)


def _run(flags: Namespace) -> int:
    """1 if a request failed."""
    from server.bench.compare import bench_compare  # noqa: PLC0415
    from server.bench.errors import RequestFailed  # noqa: PLC0415

    try:
        return bench_compare(flags)
    except RequestFailed as error:
        print(f"octavo: a request before the loads failed: {error}", file=sys.stderr)
        return 1


COMPARE = Bench(
    "compare",
    "several servers under the same loads, in turns, with ratios",
    "Send the same loads to several OpenAI-style servers, one server at a time, in turns, and compare "
    "medians over the rounds. An Octavo among them is asked for its counters too.",
    (SERVER_FLAGS, LOAD_FLAGS, OUTPUT_FLAGS),
    _run,
)
