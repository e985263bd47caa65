"""How much of the live pages is unused: random requests through the scheduler, without a model.

Fragmentation of one moment is the number of unused slots in the last live page of every sequence
over the number of slots in live pages. Pages that nobody holds are not part of it; they are
reported beside it. The report is of the worst moment of the trace.
"""

from collections import deque
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.engine import Engine
from engine.engine_stats import EngineLimits, EngineStats
from engine.page_pool import PagePool
from engine.scheduler import Scheduler
from server.bench.null_requests import null_requests
from server.bench.null_runner import NullRunner
from server.bench.span import Span


@dataclass(frozen=True, slots=True)
class Trace:
    """`num_requests` arrive one a step, of which `num_sequences` run at a time."""

    num_requests: int
    num_sequences: int
    prompt_tokens: Span
    new_tokens: Span
    page_size: int
    bytes_per_token: int  # K and V of all layers
    seed: int


@dataclass(frozen=True, slots=True)
class Moment:
    step: int
    stats: EngineStats


@dataclass(frozen=True, slots=True)
class FragmentationReport:
    num_steps: int
    worst: Moment
    mean_ratio: float  # over the steps that had live pages


def measure_fragmentation(trace: Trace) -> FragmentationReport:
    engine = _engine(trace)
    arrivals = deque(
        null_requests(trace.num_requests, trace.prompt_tokens, trace.new_tokens, trace.seed)
    )
    moments: list[Moment] = []
    while arrivals or engine.has_work:
        if arrivals:
            engine.add(arrivals.popleft())
        batch = engine.plan()
        assert batch, "whoever runs can be computed"
        moments.append(Moment(len(moments), engine.stats()))  # every page of the step is held now
        engine.finish(batch, engine.compute(batch))
    worst = max(moments, key=lambda moment: moment.stats.unused_tail_slots)
    ratios = [moment.stats.fragmentation_ratio for moment in moments]
    return FragmentationReport(len(moments), worst, sum(ratios) / len(ratios))


def _engine(trace: Trace) -> Engine:
    longest = trace.prompt_tokens.high + trace.new_tokens.high
    num_pages = trace.num_sequences * -(-longest // trace.page_size)
    config = EngineConfig(
        kv_cache_bytes=0,
        page_size=trace.page_size,
        max_num_seqs=trace.num_sequences,
        max_num_batched_tokens=trace.num_sequences + 512,
        max_queue=trace.num_requests,
        prefix_cache=False,
    )
    limits = EngineLimits(longest, trace.num_sequences, vocab_size=1)
    scheduler = Scheduler(config, limits, frozenset(), PagePool(num_pages, trace.page_size))
    return Engine(scheduler, NullRunner(trace.page_size * trace.bytes_per_token, num_pages))
