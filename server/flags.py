"""The table of flags: the one place that says what each is called, does, and is by default."""

from argparse import ArgumentParser, ArgumentTypeError, _ArgumentGroup
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.config import AttentionKind, Device, KVDtype
from server.config import LogFormat
from server.flag_values import memory_size, not_empty, number, one_of, origin, size, whole
from server.store.model_store import DEFAULT_MODEL, aliases


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `default` is shown as it stands; `parse` makes the value, of a default too.

    Without `parse` the flag is a switch. `repeats` gathers the values of several uses.
    """

    name: str
    help: str
    parse: Callable[[str], object] | None = None
    metavar: str | None = None
    default: str | None = None
    shown_default: str | None = None  # where the default follows from something else
    repeats: bool = False

    @property
    def field(self) -> str:
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def usage(self) -> str:
        return f"{self.name} {self.metavar}" if self.metavar else self.name

    @property
    def default_text(self) -> str:
        if self.parse is None:
            return "off"
        return self.shown_default or self.default or "none"

    def add_to(self, parser: _ArgumentGroup) -> None:
        text = f"{self.help} (default: {self.default_text})".replace("%", "%%")
        if self.parse is None:
            parser.add_argument(self.name, action="store_true", help=text)
        elif self.repeats:
            parser.add_argument(
                self.name,
                action="append",
                default=[],
                type=self.parse,
                metavar=self.metavar,
                help=text,
            )
        else:
            parser.add_argument(
                self.name,
                default=self.default,
                type=self.parse,
                metavar=self.metavar,
                help=text,
            )


@dataclass(frozen=True, slots=True)
class FlagGroup:
    title: str
    flags: tuple[Flag, ...]


def _path(text: str) -> Path:
    return Path(not_empty(text)).expanduser()


def _readable(text: str) -> Path:
    path = _path(text)
    try:
        path.open("rb").close()
    except OSError as error:
        raise ArgumentTypeError(f"{text}: {error.strerror}") from error
    return path


MODEL = FlagGroup(
    "model",
    (
        Flag(
            "--model",
            f"what to load: an alias ({', '.join(aliases())}), a folder of Hugging Face files, "
            "a .gguf file, or a Hugging Face repository id",
            not_empty,
            "NAME",
            default=DEFAULT_MODEL,
        ),
        Flag(
            "--max-model-len",
            "the most tokens of prompt and answer together",
            whole(1),
            "TOKENS",
            shown_default="what the model allows",
        ),
        Flag(
            "--device",
            "where to compute: cpu, gpu, or auto for the GPU of a Mac with Apple silicon and "
            "the CPU elsewhere",
            one_of("auto", *Device),
            "DEVICE",
            default="auto",
        ),
        Flag(
            "--threads",
            "threads that share the work of the CPU",
            whole(1, 1024),
            "N",
            shown_default="every core",
        ),
        Flag(
            "--attention",
            "paged reads K/V in place; dense gathers it first and is slower: a check on the other",
            one_of(*AttentionKind),
            "KIND",
            default="paged",
        ),
    ),
)

MEMORY = FlagGroup(
    "KV cache and batching",
    (
        Flag(
            "--kv-cache-memory",
            "the most that the KV cache may grow to: bytes (2GiB) or a share of the memory "
            "available at start (40%)",
            memory_size,
            "SIZE",
            default="40%",
        ),
        Flag(
            "--kv-dtype",
            "how K and V are stored: float32, float16 or bfloat16",
            one_of(*KVDtype),
            "DTYPE",
            shown_default="float32 on the CPU, float16 on a GPU",
        ),
        Flag(
            "--page-size",
            "tokens in one page of the KV cache",
            whole(1, 1024),
            "TOKENS",
            shown_default="16 on the CPU, 32 on a GPU",
        ),
        Flag(
            "--no-prefix-cache",
            "do not reuse the pages of prompts that begin alike",
        ),
        Flag(
            "--max-num-seqs",
            "the most sequences that run at once; others wait",
            whole(1, 4096),
            "N",
            default="64",
        ),
        Flag(
            "--max-num-batched-tokens",
            "the most tokens computed in one step; longer prompts take several",
            whole(1, 1 << 20),
            "TOKENS",
            shown_default="128 on the CPU, 2048 on a GPU, at least twice --max-num-seqs",
        ),
        Flag(
            "--max-queue",
            "the most requests that wait; more are refused with 503",
            whole(1),
            "N",
            default="256",
        ),
    ),
)

LISTEN = FlagGroup(
    "listening",
    (
        Flag(
            "--host",
            "the address to listen on; 0.0.0.0 or :: is every one",
            not_empty,
            "HOST",
            shown_default="127.0.0.1",
        ),
        Flag(
            "--port",
            "the TCP port; 0 takes a free one and prints it",
            whole(0, 65535),
            "PORT",
            shown_default="8000",
        ),
        Flag("--uds", "listen on this Unix socket instead of a TCP port", _path, "PATH"),
        Flag("--tls-cert", "serve HTTPS with this certificate (PEM)", _readable, "FILE"),
        Flag("--tls-key", "the key of --tls-cert (PEM)", _readable, "FILE"),
    ),
)

HTTP = FlagGroup(
    "HTTP",
    (
        Flag(
            "--served-model-name",
            "what clients call the model",
            not_empty,
            "NAME",
            shown_default="the alias, the repository id, or the name of the folder or file",
        ),
        Flag(
            "--api-key",
            "ask clients for this key (Authorization: Bearer KEY); may be given several times. "
            "The environment variable OCTAVO_API_KEY holds one more",
            not_empty,
            "KEY",
            repeats=True,
        ),
        Flag("--api-key-file", "more keys, one on each line", _readable, "FILE"),
        Flag(
            "--cors-origin",
            "let pages of this origin call the server, or * for all; may be given several times",
            origin,
            "ORIGIN",
            repeats=True,
        ),
        Flag(
            "--max-body-size",
            "the largest request body; a larger one is refused with 413",
            size,
            "SIZE",
            default="4MiB",
        ),
        Flag(
            "--request-timeout",
            "end a request that takes longer than this",
            number(0, above=True),
            "SECONDS",
        ),
        Flag(
            "--keepalive",
            "seconds between the comment lines that keep a silent stream open",
            number(0.01, 3600),
            "SECONDS",
            default="10",
        ),
        Flag(
            "--grace",
            "seconds that running requests get to end when the server is told to stop",
            number(0, 86400),
            "SECONDS",
            default="30",
        ),
        Flag("--no-dashboard", "serve no live view at /dashboard"),
        Flag("--debug-endpoints", "show the page pool at /debug/pages"),
    ),
)

LOGGING = FlagGroup(
    "logging",
    (
        Flag(
            "--log-format",
            "text, or json for one object on each line",
            one_of(*LogFormat),
            "FORMAT",
            default="text",
        ),
        Flag(
            "--log-level",
            "the least that is logged: debug, info, warning or error",
            one_of("debug", "info", "warning", "error"),
            "LEVEL",
            default="info",
        ),
        Flag("--log-prompts", "log the text of prompts too"),
    ),
)

SPECULATION = FlagGroup(
    "speculative decoding",
    (
        Flag(
            "--speculative",
            "draft tokens and let the model check several in one step; the text stays the same. "
            "ngram drafts from the text itself, the name of a small model with the same "
            "vocabulary from that model",
            not_empty,
            "HOW",
            shown_default="off",
        ),
        Flag(
            "--max-draft-tokens",
            "the most tokens drafted for one sequence in one step; fewer where drafts are not "
            "accepted or the batch is large",
            whole(1, 64),
            "N",
            shown_default="8",
        ),
    ),
)

SAMPLING = FlagGroup(
    "sampling",
    (
        Flag("--max-tokens", "the most tokens to generate", whole(1), "N", default="512"),
        Flag("--temperature", "0 always takes the likeliest token", number(0, 2), "T", default="0"),
        Flag(
            "--top-p",
            "draw from the likeliest tokens that together have this probability",
            number(0, 1, above=True),
            "P",
            default="1",
        ),
        Flag(
            "--top-k", "draw from this many likeliest tokens; 0 is all", whole(0), "K", default="0"
        ),
        Flag(
            "--min-p",
            "leave out tokens less likely than this share of the likeliest",
            number(0, 1),
            "P",
            default="0",
        ),
        Flag(
            "--seed", "draw the same text again", whole(0, 2**63 - 1), "N", shown_default="random"
        ),
        Flag(
            "--stop",
            "end before this text; may be given several times",
            not_empty,
            "TEXT",
            repeats=True,
        ),
        Flag("--system", "a system message before the prompt", not_empty, "TEXT"),
        Flag("--raw", "continue the prompt as it stands, without the chat template"),
    ),
)

SERVE_FLAGS = (MODEL, MEMORY, SPECULATION, LISTEN, HTTP, LOGGING)
GENERATE_FLAGS = (SAMPLING, MODEL, MEMORY, SPECULATION)


def add_flags(parser: ArgumentParser, groups: Sequence[FlagGroup]) -> None:
    for group in groups:
        section = parser.add_argument_group(group.title)
        for flag in group.flags:
            flag.add_to(section)
