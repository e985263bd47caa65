"""From measured requests to percentiles and rates. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from server.bench.load import Pace
from server.bench.load_run import LoadRun

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of times in seconds; percentiles are interpolated between the two nearest values."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    worst: float


def distribution(values: Sequence[float]) -> Distribution | None:
    """None of no values."""
    if not values:
        return None
    p50, p90, p95, p99 = (float(value) for value in np.percentile(values, PERCENTILES))
    return Distribution(len(values), float(np.mean(values)), p50, p90, p95, p99, max(values))


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Figures of one load. Tokens, times and rates are of the requests that did not fail.

    `seconds_per_token` is a request's mean time for a token after the first, the fair figure where
    a chunk carries several tokens; `between_tokens` has the time between each chunk and the next.
    """

    pace: Pace
    num_requests: int
    failures: Mapping[str, int]  # by kind
    first_failure: str | None
    seconds: float
    prompt_tokens: int | None  # None where the server does not count
    cached_tokens: int
    output_tokens: int
    chunks_of_text: int
    tokens_counted_by_server: bool
    first_token: Distribution | None
    between_tokens: Distribution | None
    seconds_per_token: Distribution | None
    whole_request: Distribution | None
    counters: Mapping[str, float]  # of an Octavo: what was added

    @property
    def num_failed(self) -> int:
        return sum(self.failures.values())

    @property
    def num_done(self) -> int:
        return self.num_requests - self.num_failed

    @property
    def output_tokens_per_second(self) -> float:
        return self.output_tokens / self.seconds

    @property
    def requests_per_second(self) -> float:
        return self.num_done / self.seconds


def report_of(run: LoadRun) -> LoadReport:
    done = [request for request in run.requests if request.failure is None]
    failed = [request.failure for request in run.requests if request.failure]
    usages = [request.usage for request in done if request.usage]
    counted = len(usages) == len(done)
    paces = (request.seconds_per_token for request in done)
    return LoadReport(
        pace=run.pace,
        num_requests=len(run.requests),
        failures=dict(Counter(failure.kind for failure in failed)),
        first_failure=str(failed[0]) if failed else None,
        seconds=run.seconds,
        prompt_tokens=sum(usage.prompt_tokens for usage in usages) if counted else None,
        cached_tokens=sum(usage.cached_tokens for usage in usages),
        output_tokens=sum(request.output_tokens for request in done),
        chunks_of_text=sum(len(request.arrivals) for request in done),
        tokens_counted_by_server=counted,
        first_token=distribution([request.ttft for request in done]),
        between_tokens=distribution([gap for request in done for gap in request.gaps]),
        seconds_per_token=distribution([pace for pace in paces if pace is not None]),
        whole_request=distribution([request.seconds for request in done]),
        counters=run.counters,
    )
