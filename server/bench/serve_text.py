"""How `octavo bench serve` shows what it measured: a table, and an object for JSON. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from server.bench.draft_note import draft_notes
from server.bench.load import Load, Rate
from server.bench.load_report import Distribution, LoadReport, report_of
from server.bench.load_run import LoadRun
from server.bench.server_counters import DRAFTED_TOKENS, ServerCounters
from server.bench.table import table
from server.bench.target import Target

HEADER = (
    *("load", "failed", "output tok/s", "requests/s", "milliseconds"),
    *("p50", "p90", "p95", "p99", "worst"),
)


def as_table(reports: Sequence[LoadReport]) -> str:
    rows = [row for report in reports for row in _rows(report)]
    return "\n".join([table(HEADER, rows), *_notes(reports)])


def as_object(target: Target, load: Load, runs: Sequence[LoadRun]) -> Mapping[str, object]:
    """As docs/bench.md says. A failed request has "failure" in place of its token counts."""
    return {
        "url": target.url,
        "model": target.model,
        "endpoint": target.endpoint.removeprefix(target.url),
        "load": asdict(load),
        "points": [_point(run) for run in runs],
    }


def _rows(report: LoadReport) -> list[tuple[str, ...]]:
    head = (
        str(report.pace),
        f"{report.num_failed} of {report.num_requests}",
        f"{report.output_tokens_per_second:.2f}",
        f"{report.requests_per_second:.3f}",
    )
    nothing = ("",) * len(head)
    return [
        (*head, "first token", *_cells(report.first_token)),
        (*nothing, "between tokens", *_cells(report.between_tokens)),
        (*nothing, "whole request", *_cells(report.whole_request)),
    ]


def _cells(times: Distribution | None) -> tuple[str, ...]:
    if times is None:
        return ("-",) * 5
    values = (times.p50, times.p90, times.p95, times.p99, times.worst)
    return tuple(f"{seconds * 1000:.1f}" for seconds in values)


def _notes(reports: Sequence[LoadReport]) -> list[str]:
    lengths = [_lengths(report) for report in reports if report.num_done]
    failures = [
        f"{report.pace}: failed: "
        + ", ".join(f"{count} x {kind}" for kind, count in report.failures.items())
        + f"; the first: {report.first_failure}"
        for report in reports
        if report.num_failed
    ]
    drafts = draft_notes((str(report.pace), report.counters) for report in reports)
    notes = [*dict.fromkeys(lengths), *drafts, *failures]
    return ["", *notes] if notes else []


def _lengths(report: LoadReport) -> str:
    new = f"{report.output_tokens / report.num_done:.1f} new tokens a request"
    if report.prompt_tokens is None or not report.tokens_counted_by_server:
        return f"{report.pace}: {new}, one for each chunk: the server does not count them"
    prompt = f"{report.prompt_tokens / report.num_done:.1f} prompt tokens"
    cached = (
        f" ({report.cached_tokens / report.num_done:.1f} cached)" if report.cached_tokens else ""
    )
    grouped = report.output_tokens > 1.05 * report.chunks_of_text
    share = (
        f", {report.output_tokens / report.chunks_of_text:.2f} tokens in a chunk" if grouped else ""
    )
    return f"{report.pace}: {prompt}{cached} and {new}{share}{_each_token(report)}"


def _each_token(report: LoadReport) -> str:
    """The time of a token, where drafts let several come at once and none between most of them."""
    if not ServerCounters(report.counters).total(DRAFTED_TOKENS) or not report.seconds_per_token:
        return ""
    return f"; {report.seconds_per_token.p50 * 1000:.1f} ms for each token after the first (p50)"


def _point(run: LoadRun) -> Mapping[str, object]:
    report = report_of(run)
    pace = run.pace
    return {
        "clients": None if isinstance(pace, Rate) else pace.count,
        "rate": pace.per_second if isinstance(pace, Rate) else None,
        **{name: value for name, value in asdict(report).items() if name != "pace"},
        "output_tokens_per_second": report.output_tokens_per_second,
        "requests_per_second": report.requests_per_second,
        "requests": [_request(run, index) for index in range(len(run.requests))],
    }


def _request(run: LoadRun, index: int) -> Mapping[str, object]:
    request = run.requests[index]
    times: dict[str, object] = {
        "started": request.started - min(other.started for other in run.requests),
        "seconds": request.seconds,
    }
    if request.failure:
        return {**times, "failure": request.failure.kind, "detail": request.failure.detail}
    return {
        **times,
        "first_token": request.ttft,
        "between_tokens": request.gaps,
        "prompt_tokens": request.usage.prompt_tokens if request.usage else None,
        "output_tokens": request.output_tokens,
    }
