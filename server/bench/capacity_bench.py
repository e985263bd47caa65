"""`octavo bench capacity`: its flags, its table, its JSON, its plot."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from server.bench.bench import Bench
from server.bench.capacity import Admission, Capacity, CapacityTrace, measure_capacity
from server.bench.errors import BenchError
from server.bench.flag_parsers import MOST_REQUESTS, one_or_more
from server.bench.output import OUTPUT_FLAGS, telling, write_json
from server.bench.plot import check_plotting, doubling_axis, from_zero, new_figure, save_figure
from server.bench.span import span
from server.bench.table import table
from server.flag_reading import FlagError
from server.flag_values import size, whole
from server.flags import Flag, FlagGroup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIB = 1 << 20
LABELS = (
    (Admission.PAGED, "paged"),
    (Admission.DECLARED, "dense, prompt + max_tokens"),
    (Admission.LONGEST, "dense, longest context"),
)

TRACE_FLAGS = FlagGroup(
    "trace",
    (
        Flag(
            "--budgets",
            "bytes for K/V, one after the other",
            one_or_more(size),
            "SIZE[,SIZE]",
            "128MiB,256MiB,512MiB,1GiB",
        ),
        Flag(
            "--requests",
            "requests that wait from the first step on",
            whole(1, MOST_REQUESTS),
            "N",
            "200",
        ),
        Flag("--prompt-tokens", "length of a prompt", span, "LOW:HIGH", "128:1024"),
        Flag("--new-tokens", "length of an answer", span, "LOW:HIGH", "32:128"),
        Flag(
            "--max-tokens",
            "what each request may ask for; its answer ends before",
            whole(1),
            "N",
            shown_default="HIGH of --new-tokens",
        ),
        Flag(
            "--max-model-len",
            "the longest context that the server allows",
            whole(1),
            "TOKENS",
            "2048",
        ),
        Flag("--page-size", "tokens in a page", whole(1), "N", "16"),
        Flag(
            "--bytes-per-token",
            "what `octavo serve` prints for a page, divided by the tokens in it",
            whole(1),
            "BYTES",
            "46080",
        ),
        Flag("--max-num-batched-tokens", "tokens computed in one step", whole(1), "TOKENS", "512"),
        Flag("--seed", "the same seed gives the same trace", whole(0), "N", "0"),
    ),
)


def trace_of(flags: Namespace) -> CapacityTrace:
    """Raises FlagError where a request would be longer than the longest context."""
    declared = flags.max_tokens or flags.new_tokens.high
    if declared < flags.new_tokens.high:
        raise FlagError("--max-tokens is less than the longest answer of --new-tokens")
    if flags.prompt_tokens.high + declared > flags.max_model_len:
        raise FlagError("the longest prompt and answer are more than --max-model-len")
    return CapacityTrace(
        num_requests=flags.requests,
        prompt_tokens=flags.prompt_tokens,
        new_tokens=flags.new_tokens,
        declared_tokens=declared,
        max_model_len=flags.max_model_len,
        page_size=flags.page_size,
        bytes_per_token=flags.bytes_per_token,
        tokens_per_step=flags.max_num_batched_tokens,
        seed=flags.seed,
    )


def _run(flags: Namespace) -> int:
    check_plotting(flags.plot)
    trace = trace_of(flags)
    _check_budgets(trace, flags.budgets)
    capacities = measure_capacity(trace, flags.budgets)
    with telling() as tell:
        tell(_as_table(capacities))
        if flags.json:
            report = [asdict(capacity) for capacity in capacities]
            write_json(flags.json, {"trace": asdict(trace), "capacities": report})
        if flags.plot:
            save_figure(capacity_figure(capacities), flags.plot)
    return 0


def _check_budgets(trace: CapacityTrace, budgets: Sequence[int]) -> None:
    """Raises BenchError for one that holds no page."""
    bytes_per_page = trace.page_size * trace.bytes_per_token
    if min(budgets) < bytes_per_page:
        raise BenchError(
            f"--budgets: {min(budgets)} bytes do not hold one page of {bytes_per_page} bytes"
        )


def _as_table(capacities: Sequence[Capacity]) -> str:
    labels = dict(LABELS)
    header = ("budget", "admission", "finished", "refused", "at once", "mean", "steps", "preempted")
    return table(
        header,
        [
            (
                f"{capacity.budget_bytes / MIB:,.6g} MiB",
                labels[capacity.admission],
                str(capacity.num_finished),
                str(capacity.num_refused),
                str(capacity.most_running),
                f"{capacity.mean_running:.1f}",
                str(capacity.num_steps),
                str(capacity.num_preemptions),
            )
            for capacity in capacities
        ],
    )


def capacity_figure(capacities: Sequence[Capacity]) -> "Figure":
    figure = new_figure("Requests in one budget of K/V", 1, 2)
    at_once, steps = figure.subplots(1, 2)
    for admission, label in LABELS:
        points = [c for c in capacities if c.admission is admission and c.num_finished]
        budgets = [point.budget_bytes / MIB for point in points]
        at_once.plot(budgets, [point.mean_running for point in points], marker="o", label=label)
        steps.plot(budgets, [point.num_steps for point in points], marker="o", label=label)
    budgets = [capacity.budget_bytes / MIB for capacity in capacities]
    done = [capacity for capacity in capacities if capacity.num_finished]
    from_zero(at_once, [capacity.mean_running for capacity in done])
    from_zero(steps, [capacity.num_steps for capacity in done])
    for axes, name in ((at_once, "mean requests at once"), (steps, "steps until all have ended")):
        doubling_axis(axes, budgets)
        axes.set_xlabel("budget, MiB")
        axes.set_ylabel(name)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    return figure


CAPACITY = Bench(
    "capacity",
    "how many requests a K/V budget holds at once, in pages and in dense reservations",
    "How many requests of one random trace run at once in a budget of K/V bytes: with pages, and "
    "where each request reserves its longest possible K/V first. Needs no model.",
    (TRACE_FLAGS, OUTPUT_FLAGS),
    _run,
)
