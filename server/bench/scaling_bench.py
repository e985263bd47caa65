"""`octavo bench scaling`: its flags."""

from argparse import Namespace
from collections.abc import Callable

from engine.config import Device
from server.bench.bench import Bench
from server.bench.flag_parsers import one_or_more
from server.bench.output import OUTPUT_FLAGS
from server.flag_values import not_empty, one_of, whole
from server.flags import Flag, FlagGroup
from server.store.model_store import DEFAULT_MODEL

NAMES = ("batch", "context", "pool", "prompt", "chunk", "budget", "memory")


def words(*known: str) -> Callable[[str], tuple[str, ...]]:
    """Some of the words, with commas between them."""
    parse = one_of(*known)
    return lambda text: tuple(parse(part) for part in text.split(","))


FLAGS = FlagGroup(
    "sweeps",
    (
        Flag("--model", "what to load, as for octavo serve", not_empty, "NAME", DEFAULT_MODEL),
        Flag(
            "--sweeps",
            f"what to measure: some of {', '.join(NAMES)} (memory on Linux alone)",
            words(*NAMES),
            "NAME[,NAME]",
            ",".join(NAMES),
        ),
        Flag("--max-sequences", "the largest batch", whole(2, 256), "N", "64"),
        Flag("--longest", "the longest context and prompt of a sweep", whole(32), "TOKENS", "4096"),
        Flag("--steps", "decode steps of which the median counts", whole(1), "N", "24"),
        Flag(
            "--budgets",
            "tokens in a step, for the budget sweep",
            one_or_more(whole(8)),
            "N[,N]",
            "64,128,256,512",
        ),
        Flag(
            "--long-prompt",
            "the prompt that arrives beside four sequences in the budget sweep",
            whole(1),
            "TOKENS",
            "4000",
        ),
        Flag("--context", "each of 16 contexts of the memory sweep", whole(1), "TOKENS", "1000"),
        Flag("--threads", "threads that share the work", whole(1, 1024), "N", shown_default="all"),
        Flag(
            "--device",
            "where to compute, as for octavo serve",
            one_of("auto", *Device),
            "DEVICE",
            "auto",
        ),
    ),
)


def _run(flags: Namespace) -> int:
    from server.bench.scaling_run import bench_scaling  # noqa: PLC0415

    return bench_scaling(flags)


SCALING = Bench(
    "scaling",
    "how the time of a step grows with batch, context, pool, prompt and chunk, and memory with K/V",
    "Load a model and time its steps, with no HTTP between: each sweep changes one size, and a "
    "straight line is drawn through what it finds.",
    (FLAGS, OUTPUT_FLAGS),
    _run,
)
