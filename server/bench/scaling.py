"""How the cost of a step grows: each sweep changes one size, and one line of arithmetic is its law."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.models import CausalLM
from server.bench.line_fit import Line, fit_line
from server.bench.workbench import decode_seconds, prefill_steps

BATCH_CONTEXT = 128  # tokens before each sequence of the batch sweep
POOL_SEQUENCES, POOL_CONTEXT = 4, 128
CHUNKED_PROMPT = 1024  # tokens of the prompt of the chunk sweep
TOKENS_PER_STEP = 512
PAGE_SIZE = 16  # tokens in a page


@dataclass(frozen=True, slots=True)
class Point:
    """`tokens` were computed in `seconds`."""

    x: int
    seconds: float
    tokens: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Sweep:
    """`law` says what is expected of the seconds, `line` what was found."""

    name: str
    title: str
    x_label: str
    law: str
    points: tuple[Point, ...]
    line: Line

    @property
    def spread(self) -> float:
        """The slowest point over the fastest: 1 where the size does not matter."""
        times = [point.seconds for point in self.points]
        return max(times) / min(times)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How far the sweeps go, and over how many steps a median is taken."""

    most_sequences: int
    longest: int  # tokens
    num_steps: int


def doubled(first: int, last: int) -> list[int]:
    """first, 2 first, 4 first .. up to `last`, and at least two of them."""
    sizes = [first, 2 * first]
    while 2 * sizes[-1] <= last:
        sizes.append(2 * sizes[-1])
    return sizes


def batch_sweep(model: CausalLM, sizes: Sizes) -> Sweep:
    points = [
        Point(num, decode_seconds(model, num, BATCH_CONTEXT, sizes.num_steps), num)
        for num in doubled(1, sizes.most_sequences)
    ]
    return _sweep(
        "batch",
        f"a decode step, {BATCH_CONTEXT} tokens of context each",
        "sequences",
        "a + b * sequences: the weights are read once, each row is multiplied",
        points,
    )


def context_sweep(model: CausalLM, sizes: Sizes) -> Sweep:
    points = [
        Point(context, decode_seconds(model, 1, context, sizes.num_steps), 1)
        for context in doubled(min(128, sizes.longest // 2), sizes.longest)
    ]
    return _sweep(
        "context",
        "a decode step of one sequence",
        "tokens of context",
        "a + b * context: K/V of the context is read once",
        points,
    )


def pool_sweep(model: CausalLM, sizes: Sizes) -> Sweep:
    """Up to the pages of four of the longest contexts, all of them with memory behind them."""
    needed = POOL_SEQUENCES * (POOL_CONTEXT + sizes.num_steps) // PAGE_SIZE
    points = [
        Point(
            pages,
            decode_seconds(model, POOL_SEQUENCES, POOL_CONTEXT, sizes.num_steps, pages),
            POOL_SEQUENCES,
        )
        for pages in doubled(2 * needed, 4 * sizes.longest // PAGE_SIZE)
    ]
    return _sweep(
        "pool",
        f"a decode step of {POOL_SEQUENCES} sequences",
        "pages with memory",
        "flat: nobody reads pages that are not his",
        points,
    )


def prompt_sweep(model: CausalLM, sizes: Sizes) -> Sweep:
    points = [
        Point(tokens, sum(prefill_steps(model, tokens, TOKENS_PER_STEP)), tokens)
        for tokens in doubled(min(128, sizes.longest // 2), sizes.longest)
    ]
    return _sweep(
        "prompt",
        f"a prompt, {TOKENS_PER_STEP} tokens a step",
        "tokens of the prompt",
        "a + b * tokens, and attention's square above it",
        points,
    )


def chunk_sweep(model: CausalLM, sizes: Sizes) -> Sweep:
    tokens = min(CHUNKED_PROMPT, sizes.longest)
    points = [
        Point(-(-tokens // chunk), sum(prefill_steps(model, tokens, chunk)), tokens)
        for chunk in reversed(doubled(tokens // 16, tokens // 2))
    ]
    return _sweep(
        "chunk",
        f"a prompt of {tokens} tokens in steps of {tokens // 2} to {tokens // 16}",
        "steps",
        "a + b * steps: each step reads the weights again",
        points,
    )


def _sweep(name: str, title: str, x_label: str, law: str, points: Sequence[Point]) -> Sweep:
    line = fit_line([point.x for point in points], [point.seconds for point in points])
    return Sweep(name, title, x_label, law, tuple(points), line)


MeasureSweep = Callable[[CausalLM, Sizes], Sweep]
SWEEPS: tuple[tuple[str, MeasureSweep], ...] = (
    ("batch", batch_sweep),
    ("context", context_sweep),
    ("pool", pool_sweep),
    ("prompt", prompt_sweep),
    ("chunk", chunk_sweep),
)
