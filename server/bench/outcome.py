"""What one load gave against one server in one round. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from server.bench.figure import (
    COPIED,
    FIRST_TOKEN,
    GAP_IN_STEPS,
    OUTPUT_SPEED,
    PROMPT_SPEED,
    RESIDENT,
    STEADY_GAP,
    TOKEN_TIME,
    WORST_GAP,
    Figure,
)
from server.bench.load_report import report_of
from server.bench.load_run import LoadRun
from server.bench.long_prompt import Stall
from server.bench.measured import Measured
from server.bench.server_counters import COPIED_BYTES, ServerCounters

Figures = Mapping[Figure, float]

MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class Outcome:
    """`failures` counts failed requests by kind; where there are any, no figure is given."""

    round: int
    load: str
    server: str
    figures: Figures
    failures: Mapping[str, int] = field(default_factory=dict)
    first_failure: str | None = None
    counters: Mapping[str, float] = field(default_factory=dict)  # of an Octavo: what was added


def figures_of_run(run: LoadRun) -> Figures:
    """Of a run in which nothing failed."""
    report = report_of(run)
    assert report.first_token, "a load has requests"
    figures = {
        OUTPUT_SPEED: report.output_tokens_per_second,
        FIRST_TOKEN: report.first_token.p50 * 1000,
    }
    if report.seconds_per_token:
        figures[TOKEN_TIME] = report.seconds_per_token.p50 * 1000
    speeds = [speed for request in run.requests if (speed := _prompt_speed(request))]
    if speeds:
        figures[PROMPT_SPEED] = median(speeds)
    return figures


def figures_of_stall(stall: Stall) -> Figures:
    return {
        STEADY_GAP: stall.steady_gap * 1000,
        WORST_GAP: stall.worst_gap * 1000,
        GAP_IN_STEPS: stall.worst_gap / stall.steady_gap,
        FIRST_TOKEN: stall.long_prompt.ttft * 1000,
    }


def figures_of_counters(added: ServerCounters) -> Figures:
    figures: dict[Figure, float] = {}
    copied = added.total(COPIED_BYTES)
    if copied is not None:
        figures[COPIED] = copied / MEGABYTE
    if added.resident_bytes is not None:
        figures[RESIDENT] = added.resident_bytes / MEGABYTE
    return figures


def _prompt_speed(request: Measured) -> float | None:
    """Computed prompt tokens a second until the first token; None where the server does not count."""
    if request.usage is None:
        return None
    return (request.usage.prompt_tokens - request.usage.cached_tokens) / request.ttft
