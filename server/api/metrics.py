"""Prometheus metrics, in a registry of each app's own.

Gauges and counters that the engine keeps are read from its snapshot at scrape time; what happens
at a moment (steps, tokens, ends of requests) is observed then.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.draft_counters import DraftStats
from engine.engine_stats import EngineStats, StepReport
from server.api.recent_values import RecentValues

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Seconds; from one step of a small model to a long prompt in a full queue.
TOKEN_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
REQUEST_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
STEP_TOKEN_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
OUTCOMES = ("completed", "cancelled", "refused", "failed")


class Metrics:
    """Every metric of one server; `step` is the engine loop's observer."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "octavo_requests",
            "Generation requests that ended, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in OUTCOMES:
            self.requests.labels(outcome=outcome)
        self.time_to_first_token = self._seconds(
            "octavo_time_to_first_token_seconds",
            "From a request's headers to its first token.",
            REQUEST_BUCKETS,
        )
        self.recent_first_tokens = RecentValues()  # seconds, likewise
        self.inter_token = self._seconds(
            "octavo_inter_token_seconds", "Between two tokens of one choice.", TOKEN_BUCKETS
        )
        self.request_seconds = self._seconds(
            "octavo_request_seconds", "From a request's headers to its end.", REQUEST_BUCKETS
        )
        self.queue_seconds = self._seconds(
            "octavo_queue_seconds", "From admission to the first step.", REQUEST_BUCKETS
        )
        self.step_seconds = self._seconds(
            "octavo_step_seconds", "Duration of one device step.", TOKEN_BUCKETS
        )
        self.step_tokens = Histogram(
            "octavo_step_tokens",
            "Tokens computed in one device step.",
            buckets=STEP_TOKEN_BUCKETS,
            registry=self.registry,
        )

    def step(self, report: StepReport) -> None:
        self.step_seconds.observe(report.seconds)
        self.step_tokens.observe(report.num_tokens)
        for seconds in report.queue_seconds:
            self.queue_seconds.observe(seconds)

    def first_token(self, seconds: float, now: float) -> None:
        """`seconds` from a request's headers to its first token, at `now` of the records' clock."""
        self.time_to_first_token.observe(seconds)
        self.recent_first_tokens.add(now, seconds)

    def watch(self, stats: Callable[[], EngineStats]) -> None:
        """Shows the engine's own figures too, read at each scrape."""
        self.registry.register(_EngineCollector(stats))

    def render(self) -> bytes:
        """The exposition text, in Prometheus' own format 0.0.4."""
        return generate_latest(_WithoutCreated(self.registry))

    def _seconds(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)


class _WithoutCreated(Collector):
    """Leaves out the times at which each counter began: one more series for each, used by none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family


class _EngineCollector(Collector):
    def __init__(self, stats: Callable[[], EngineStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        yield _pages(stats)
        yield _copied_bytes(stats)
        for name, text, value in _gauges(stats):
            yield GaugeMetricFamily(name, text, value=value)
        for name, text, count in _counters(stats):
            yield CounterMetricFamily(name, text, value=count)
        yield from _draft_places(stats.drafts)


def _pages(stats: EngineStats) -> Metric:
    family = GaugeMetricFamily("octavo_pages", "Pages of the budget, by state.", labels=["state"])
    family.add_metric(["free"], stats.pages_free)
    family.add_metric(["used"], stats.pages_used)
    family.add_metric(["cached"], stats.pages_cached)
    return family


def _copied_bytes(stats: EngineStats) -> Metric:
    family = CounterMetricFamily(
        "octavo_kv_copied_bytes", "Bytes of K/V copied, by what copied them.", labels=["part"]
    )
    family.add_metric(["growth"], stats.kv_copied.growth)
    family.add_metric(["pages"], stats.kv_copied.pages)
    family.add_metric(["gather"], stats.kv_copied.gather)
    return family


def _draft_places(drafts: DraftStats) -> Iterator[Metric]:
    """Accepted over drafted is the chance of acceptance at each place."""
    for name, text, counts in (
        (
            "octavo_drafted_by_place",
            "Drafted tokens by their place after the last known token.",
            drafts.drafted_at,
        ),
        (
            "octavo_accepted_by_place",
            "Accepted drafted tokens by the same place.",
            drafts.accepted_at,
        ),
    ):
        family = CounterMetricFamily(name, text, labels=["place"])
        for place, count in enumerate(counts, start=1):
            family.add_metric([str(place)], count)
        yield family


def _gauges(stats: EngineStats) -> tuple[tuple[str, str, float], ...]:
    return (
        ("octavo_page_budget", "Pages that the pool may ever have.", stats.page_budget),
        (
            "octavo_page_capacity",
            "Pages that have memory behind them, or were ever used.",
            stats.page_capacity,
        ),
        (
            "octavo_kv_fragmentation_ratio",
            "Unused slots in last pages over all slots in used pages.",
            stats.fragmentation_ratio,
        ),
        ("octavo_kv_unused_tail_bytes", "Bytes of unused slots.", stats.unused_tail_bytes),
        ("octavo_requests_running", "Sequences in steps.", stats.requests_running),
        ("octavo_requests_waiting", "Sequences in the queue.", stats.requests_waiting),
    )


def _counters(stats: EngineStats) -> tuple[tuple[str, str, int], ...]:
    return (
        ("octavo_pool_growths", "Times all pages moved to larger arrays.", stats.pool_growths),
        ("octavo_page_copies", "Pages copied before a write.", stats.page_copies),
        ("octavo_preemptions", "Sequences put back to the queue.", stats.preemptions),
        ("octavo_evictions", "Cached pages given up.", stats.evictions),
        (
            "octavo_prefix_query_tokens",
            "Prompt tokens looked up in the prefix cache.",
            stats.prefix_query_tokens,
        ),
        (
            "octavo_prefix_hit_tokens",
            "Prompt tokens found in the prefix cache.",
            stats.prefix_hit_tokens,
        ),
        ("octavo_prompt_tokens", "Prompt tokens taken in.", stats.prompt_tokens),
        ("octavo_generated_tokens", "Tokens generated.", stats.generated_tokens),
        (
            "octavo_drafted_tokens",
            "Tokens drafted and checked; each is accepted or rewound.",
            stats.drafts.drafted_tokens,
        ),
        (
            "octavo_accepted_tokens",
            "Drafted tokens that the model drew too.",
            stats.drafts.accepted_tokens,
        ),
        (
            "octavo_rewound_tokens",
            "Drafted tokens taken back.",
            stats.drafts.rewound_tokens,
        ),
        (
            "octavo_rewound_pages",
            "Pages given back with drafted tokens.",
            stats.drafts.rewound_pages,
        ),
        (
            "octavo_proposer_failures",
            "Times that drafting failed; the texts went on without drafts.",
            stats.drafts.proposer_failures,
        ),
    )
