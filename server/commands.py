"""The commands of `octavo`: what the command line may say, and what each command calls."""

import os
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Sequence

from engine.errors import InvalidRequest, ModelError
from server.bench.command import add_bench
from server.bench.errors import BenchError
from server.errors import GenerationFailed
from server.flag_reading import FlagError, serve_config
from server.flags import GENERATE_FLAGS, SERVE_FLAGS, add_flags
from server.launchd import LaunchdError
from server.machine import this_machine
from server.service_command import add_service
from server.standard_output import OutputError, ReaderLeft, standard_output
from server.store.model_store import DEFAULT_MODEL, aliases, pull_model
from server.top.command import add_top
from server.top.errors import WatchError
from server.unknown_flags import refuse_unknown
from server.version import version

FAILED = 1
USAGE_ERROR = 2  # also for a model that cannot be loaded


def run_command(arguments: Sequence[str] | None) -> int:
    """Returns the exit code: 0 done, 1 failed, 2 wrong usage or a model that cannot be loaded."""
    given = tuple(sys.argv[1:] if arguments is None else arguments)
    flags, unknown = make_parser().parse_known_args(given, Namespace(given=given))
    parser: ArgumentParser = flags.parser
    if unknown:
        refuse_unknown(parser, unknown)
    command: Callable[[Namespace], int] = flags.command
    try:
        return command(flags)
    except FlagError as error:
        parser.error(str(error))
    except (ModelError, InvalidRequest, BenchError) as error:
        print(f"octavo: {error}", file=sys.stderr)
        return USAGE_ERROR
    except ReaderLeft:
        return 0
    except (GenerationFailed, LaunchdError, OutputError, WatchError) as error:
        print(f"octavo: {error}", file=sys.stderr)
        return FAILED


def make_parser() -> ArgumentParser:
    """Each command sets `command`, what it calls, and `parser`, which tells of its wrong usage."""
    parser = ArgumentParser(
        prog="octavo",
        description="Serve language models on MLX, many clients at once, over the OpenAI API.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"octavo {version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    serve = _add(commands, "serve", "serve a model over HTTP", usage="octavo serve [flags]")
    add_flags(serve, SERVE_FLAGS)
    serve.set_defaults(command=_serve)
    generate = _add(
        commands,
        "generate",
        "answer one prompt on the terminal",
        usage="octavo generate [flags] prompt",
    )
    generate.add_argument("prompt", help="the prompt; - reads it from the standard input")
    add_flags(generate, GENERATE_FLAGS)
    generate.set_defaults(command=_generate)
    pull = _add(commands, "pull", "fetch a model and print where it lies")
    pull.add_argument(
        "name",
        nargs="?",
        default=DEFAULT_MODEL,
        help=f"an alias ({', '.join(aliases())}) or a Hugging Face repository id "
        f"(default: {DEFAULT_MODEL})",
    )
    pull.set_defaults(command=_pull)
    bench = _add(
        commands,
        "bench",
        "measure servers, kernels and the page pool, on requests drawn from a seed",
    )
    add_bench(bench)
    add_service(_add(commands, "service", "keep the server running on a Mac (launchd)"))
    add_top(_add(commands, "top", "watch a server on the terminal"))
    doctor = _add(commands, "doctor", "check this machine and this installation")
    doctor.set_defaults(command=_doctor)
    return parser


def _add(
    commands: "_SubParsersAction[ArgumentParser]", name: str, text: str, usage: str | None = None
) -> ArgumentParser:
    sentence = f"{text[0].upper()}{text[1:]}."
    parser = commands.add_parser(
        name, help=text, usage=usage, description=sentence, allow_abbrev=False
    )
    parser.set_defaults(parser=parser)
    return parser


# The commands import what they need: MLX and the HTTP stack take a second that --help need not wait.


def _serve(flags: Namespace) -> int:
    from server.serve import serve  # noqa: PLC0415

    return serve(serve_config(flags, os.environ, this_machine()))


def _generate(flags: Namespace) -> int:
    from server.generate import generate  # noqa: PLC0415

    return generate(flags)


def _pull(flags: Namespace) -> int:
    path = pull_model(flags.name).path
    with standard_output() as out:
        print(path, file=out)
    return 0


def _doctor(_: Namespace) -> int:
    from server.doctor import examine, findings  # noqa: PLC0415

    found = findings()
    with standard_output():
        return examine(found)
