"""`octavo bench speculative`: its flags."""

from argparse import Namespace

from server.bench.bench import Bench
from server.bench.client_key import SHOWN_DEFAULT
from server.bench.output import JSON_FLAG
from server.bench.target import base_url
from server.flag_reading import FlagError
from server.flag_values import not_empty, whole
from server.flags import MEMORY, MODEL, SPECULATION, Flag, FlagGroup

FLAGS = FlagGroup(
    "answers",
    (
        Flag(
            "--url",
            "ask this server, started with --speculative, and load no model here",
            base_url,
            "URL",
        ),
        Flag(
            "--api-key",
            "sent to --url as Authorization: Bearer KEY",
            not_empty,
            "KEY",
            shown_default=SHOWN_DEFAULT,
        ),
        Flag("--rounds", "times that each answer is given both ways", whole(1), "N", "3"),
        Flag("--new-tokens", "the longest answer", whole(2), "N", "160"),
        JSON_FLAG,
    ),
)


OURS = (MODEL, MEMORY, SPECULATION)


def _check(flags: Namespace) -> None:
    """Raises FlagError for a flag that a server at --url would not hear of."""
    ours = {flag.name for group in OURS for flag in group.flags}
    given = ours.intersection(word.partition("=")[0] for word in flags.given)
    if flags.url and given:
        raise FlagError(f"argument {min(given)}: cannot be used with --url: the server has its own")


def _run(flags: Namespace) -> int:
    from server.bench.speculative_run import bench_speculative  # noqa: PLC0415

    _check(flags)
    return bench_speculative(flags)


SPECULATIVE = Bench(
    "speculative",
    "one client's tokens per second with drafts and without",
    "Let one client ask for answers that repeat their prompt and for answers with nothing to copy, "
    "each with drafts and without, in turn. Where --speculative is off, drafts come from n-grams.",
    (FLAGS, *OURS),
    _run,
)
