"""`octavo bench serve`: a load against any OpenAI-style server."""

import sys
from argparse import Namespace

from server.bench.bench import Bench
from server.bench.client_key import SHOWN_DEFAULT
from server.bench.flag_parsers import MOST_REQUESTS, json_object, one_or_more, sendable
from server.bench.output import OUTPUT_FLAGS
from server.bench.span import span
from server.bench.target import base_url
from server.flag_values import not_empty, number, whole
from server.flags import Flag, FlagGroup

SERVER_FLAGS = FlagGroup(
    "server",
    (
        Flag(
            "--url",
            "the server's address",
            base_url,
            "URL",
            default="http://127.0.0.1:8000",
        ),
        Flag(
            "--model",
            "the model to ask for",
            sendable,
            "NAME",
            shown_default="the first that the server lists",
        ),
        Flag(
            "--api-key",
            "sent as Authorization: Bearer KEY",
            not_empty,
            "KEY",
            shown_default=SHOWN_DEFAULT,
        ),
        Flag("--chat", "ask /v1/chat/completions, not /v1/completions"),
        Flag(
            "--extra",
            "merged into the body of each request; null takes a field out, as in "
            '{"ignore_eos": null} for a server that does not know it',
            json_object,
            "JSON",
            default="{}",
        ),
        Flag(
            "--timeout", "the longest a request may take", number(0, above=True), "SECONDS", "600"
        ),
    ),
)

LOAD_FLAGS = FlagGroup(
    "load",
    (
        Flag(
            "--concurrency",
            "clients that each send their next request when the last has ended; 1,4,8 measures "
            "one after the other",
            one_or_more(whole(1, 4096)),
            "N[,N]",
            shown_default="8",
        ),
        Flag(
            "--rate",
            "instead of --concurrency: requests that arrive each second on average, at random, "
            "whoever waits",
            one_or_more(number(0, above=True)),
            "RATE[,RATE]",
        ),
        Flag("--requests", "requests of each load", whole(1, MOST_REQUESTS), "N", "32"),
        Flag(
            "--prompt-tokens",
            "length of a prompt, as near as random words come to it; the table says what the "
            "server counted",
            span,
            "LOW:HIGH",
            shown_default="128:128",
        ),
        Flag("--prompt-words", "length of a prompt, instead of --prompt-tokens", span, "LOW:HIGH"),
        Flag("--new-tokens", "length of an answer", span, "LOW:HIGH", "64:64"),
        Flag(
            "--shared-prefix",
            "the share of each prompt with which all of them begin",
            number(0, 1),
            "SHARE",
            "0",
        ),
        Flag(
            "--seed",
            "the same seed gives the same prompts and arrivals",
            whole(0),
            "N",
            shown_default="a new one for each run, which is printed",
        ),
        Flag(
            "--warm-up", "requests sent first that do not count", whole(0, MOST_REQUESTS), "N", "1"
        ),
    ),
)


def _run(flags: Namespace) -> int:
    """1 if a request failed."""
    from server.bench.errors import RequestFailed  # noqa: PLC0415
    from server.bench.serve import bench_serve  # noqa: PLC0415

    try:
        return bench_serve(flags)
    except RequestFailed as error:
        print(f"octavo: a request before the load failed: {error}", file=sys.stderr)
        return 1


SERVE = Bench(
    "serve",
    "the speed of any OpenAI-style server under load",
    "Send random prompts to an OpenAI-style server, and measure the time to the first token, between "
    "tokens and of whole requests. Exit code 1: a request failed; 2: no server at that address.",
    (SERVER_FLAGS, LOAD_FLAGS, OUTPUT_FLAGS),
    _run,
)
