"""How many requests of one trace fit in a budget of K/V bytes at the same time.

The same scheduler runs the same requests three times; only who is let in differs:

    paged      every request, and the scheduler gives pages as the text grows
    declared   a request once there is room for its prompt and all the tokens it may ask for
    longest    a request once there is room for the longest context that the server allows

The two reservations are those of a cache with one dense tensor for each request. They are given
every slot of the budget, as if dense tensors left no gaps between them. All requests wait from the
beginning, so memory alone limits how many run.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.config import EngineConfig
from engine.engine import Engine
from engine.engine_stats import EngineLimits
from engine.page_pool import PagePool
from engine.request import Request
from engine.scheduler import Scheduler
from server.bench.null_requests import null_requests
from server.bench.null_runner import NullRunner
from server.bench.span import Span


class Admission(StrEnum):
    PAGED = "paged"
    DECLARED = "declared"
    LONGEST = "longest"


@dataclass(frozen=True, slots=True)
class CapacityTrace:
    """Requests that all wait from the first step. `declared_tokens` is the max_tokens of each.

    Answers end earlier, after a length drawn from `new_tokens`.
    """

    num_requests: int
    prompt_tokens: Span
    new_tokens: Span
    declared_tokens: int
    max_model_len: int
    page_size: int
    bytes_per_token: int  # K and V of all layers
    tokens_per_step: int
    seed: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """One budget under one admission. `num_refused` could not run even alone."""

    budget_bytes: int
    admission: Admission
    num_finished: int
    num_refused: int
    most_running: int
    mean_running: float  # over the steps
    num_steps: int
    num_preemptions: int


def measure_capacity(trace: CapacityTrace, budgets: Sequence[int]) -> list[Capacity]:
    """Each budget under each admission, in this order."""
    return [_measure(trace, budget, admission) for budget in budgets for admission in Admission]


def _measure(trace: CapacityTrace, budget: int, admission: Admission) -> Capacity:
    requests = null_requests(trace.num_requests, trace.prompt_tokens, trace.new_tokens, trace.seed)
    num_slots = budget // (trace.bytes_per_token * trace.page_size) * trace.page_size
    gate = _Gate(num_slots, _room(trace, admission))
    waiting = deque(request for request in requests if gate.could_ever_hold(request))
    refused = len(requests) - len(waiting)
    if not waiting:
        return Capacity(budget, admission, 0, refused, 0, 0.0, 0, 0)
    slots = num_slots if admission is Admission.PAGED else trace.num_requests * trace.max_model_len
    engine = _engine(trace, -(-slots // trace.page_size))
    running = _run(engine, waiting, gate)
    return Capacity(
        budget_bytes=budget,
        admission=admission,
        num_finished=len(requests) - refused,
        num_refused=refused,
        most_running=max(running),
        mean_running=sum(running) / len(running),
        num_steps=len(running),
        num_preemptions=engine.stats().preemptions,
    )


class _Gate:
    """Lets requests in while their reservations fit, oldest first; the mutable state is the slots left."""

    def __init__(self, num_slots: int, room: Callable[[Request], int]) -> None:
        self._num_slots = num_slots
        self._left = num_slots
        self._room = room
        self._held: dict[str, int] = {}

    def could_ever_hold(self, request: Request) -> bool:
        longest = len(request.prompt_token_ids) + request.sampling.max_tokens
        return max(longest, self._room(request)) <= self._num_slots

    def let_in(self, request: Request) -> bool:
        room = self._room(request)
        if room > self._left:
            return False
        self._held[request.request_id] = room
        self._left -= room
        return True

    def let_out(self, request_id: str) -> None:
        self._left += self._held.pop(request_id)


def _room(trace: CapacityTrace, admission: Admission) -> Callable[[Request], int]:
    """The slots that one request reserves before it starts."""
    match admission:
        case Admission.PAGED:
            return lambda _: 0
        case Admission.DECLARED:
            return lambda request: len(request.prompt_token_ids) + trace.declared_tokens
        case Admission.LONGEST:
            return lambda _: trace.max_model_len


def _run(engine: Engine, waiting: deque[Request], gate: _Gate) -> list[int]:
    """To the end; how many sequences were in each step."""
    running = []
    while waiting or engine.has_work:
        while waiting and gate.let_in(waiting[0]):
            engine.add(waiting.popleft())
        batch = engine.plan()
        assert batch, "whoever runs can be computed"
        running.append(engine.stats().requests_running)
        for event in engine.finish(batch, engine.compute(batch)):
            if event.finish_reason:
                gate.let_out(event.request_id)
    return running


def _engine(trace: CapacityTrace, num_pages: int) -> Engine:
    config = EngineConfig(
        kv_cache_bytes=0,
        page_size=trace.page_size,
        max_num_seqs=trace.num_requests,
        max_num_batched_tokens=trace.tokens_per_step,
        max_queue=trace.num_requests,
        prefix_cache=False,
    )
    longest = min(trace.max_model_len, num_pages * trace.page_size)
    limits = EngineLimits(longest, trace.num_requests, vocab_size=1)
    pool = PagePool(num_pages, trace.page_size)
    scheduler = Scheduler(config, limits, frozenset(), pool)
    return Engine(scheduler, NullRunner(trace.page_size * trace.bytes_per_token, num_pages))
