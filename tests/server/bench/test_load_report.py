"""Percentiles and rates of hand-made requests."""

import json

import pytest

from server.bench.chunk import Usage
from server.bench.errors import RequestFailed
from server.bench.load import Clients, Load
from server.bench.load_report import distribution, report_of
from server.bench.load_run import LoadRun
from server.bench.measured import Measured
from server.bench.serve_text import as_object
from server.bench.span import Span
from server.bench.target import Target


def test_percentiles_lie_between_the_two_nearest_values() -> None:
    times = distribution([float(n) for n in range(100, -1, -1)])
    assert times
    assert (times.p50, times.p90, times.p95, times.p99) == (50, 90, 95, 99)
    assert (times.count, times.mean, times.worst) == (101, 50, 100)
    between = distribution([1.0, 2.0])
    assert between
    assert between.p50 == 1.5
    assert between.p90 == pytest.approx(1.9)


def test_one_value_is_all_percentiles_and_none_is_none() -> None:
    one = distribution([7.0])
    assert one
    assert one.p50 == one.p99 == one.worst == 7
    assert distribution([]) is None


TWO = (
    Measured(0.0, 4.0, (1.0, 2.0, 4.0), Usage(10, 3, 8)),
    Measured(2.0, 10.0, (5.0, 9.0), Usage(20, 3, 0)),
)
FAILED = Measured(0.0, 8.0, (1.0, 7.0), Usage(5, 5, 0), RequestFailed("cut", "gone"))


def test_rates_are_over_the_time_from_the_first_start_to_the_last_end() -> None:
    report = report_of(LoadRun(Clients(2), TWO))
    assert report.seconds == 10
    assert report.output_tokens_per_second == 0.6
    assert report.requests_per_second == 0.2
    assert (report.prompt_tokens, report.cached_tokens, report.output_tokens) == (30, 8, 6)


def test_times_are_those_of_all_requests_together() -> None:
    report = report_of(LoadRun(Clients(2), TWO))
    assert report.first_token
    assert report.between_tokens
    assert report.whole_request
    assert report.seconds_per_token
    assert report.first_token.mean == 2
    assert (report.between_tokens.count, report.between_tokens.worst) == (3, 4)
    assert report.whole_request.p50 == 6
    assert report.seconds_per_token.worst == 2  # 4 seconds for the two tokens after the first


def test_a_failed_request_counts_as_nothing_but_a_failure() -> None:
    report = report_of(LoadRun(Clients(2), (*TWO, FAILED, FAILED)))
    assert report.failures == {"cut": 2}
    assert report.first_failure == "cut: gone"
    assert (report.num_requests, report.num_failed, report.num_done) == (4, 2, 2)
    assert report.output_tokens == 6


def test_a_run_with_failures_is_told_as_json() -> None:
    load = Load(3, Span(1, 9), Span(1, 9))
    told = as_object(Target("http://x", "m"), load, [LoadRun(Clients(2), (*TWO, FAILED))])
    (point,) = json.loads(json.dumps(told))["points"]
    assert point["failures"] == {"cut": 1}
    assert (point["requests"][2]["failure"], point["requests"][2]["detail"]) == ("cut", "gone")


def test_where_all_fail_there_are_no_times() -> None:
    report = report_of(LoadRun(Clients(2), (FAILED,)))
    assert report.first_token is report.between_tokens is report.whole_request is None
    assert report.output_tokens_per_second == 0


def test_one_server_that_does_not_count_makes_chunks_the_tokens() -> None:
    uncounted = Measured(0.0, 1.0, (0.5, 0.75))
    report = report_of(LoadRun(Clients(1), (uncounted,)))
    assert not report.tokens_counted_by_server
    assert report.prompt_tokens is None
    assert report.output_tokens == report.chunks_of_text == 2
