"""A scheduler and a fake model stepped by hand: the engine without device, clock or loop."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable

from engine.config import EngineConfig
from engine.engine_stats import EngineLimits
from engine.page_pool import PagePool
from engine.proposer import Draft
from engine.request import Request, SamplingParams
from engine.scheduler import Scheduler
from engine.step_batch import StepBatch
from engine.token_event import FinishReason, TokenEvent
from tests.support.fake_model import FakeModel, Solo, solo, solo_prompt_logprobs

VOCAB_SIZE = 60
EOS = frozenset({59})

Key = tuple[str, int]  # a sequence: request_id and index


def make_request(  # noqa: PLR0913 - a request has this many independent parts
    request_id: str,
    prompt: list[int] | tuple[int, ...],
    max_tokens: int = 4,
    *,
    n: int = 1,
    salt: str = "",
    ignore_eos: bool = True,
    speculative: bool = True,
    **sampling: object,
) -> Request:
    params = SamplingParams(max_tokens, n=n, ignore_eos=ignore_eos, **sampling)  # type: ignore[arg-type]
    return Request(request_id, tuple(prompt), params, salt, speculative)


def text(length: int, seed: int = 0) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(VOCAB_SIZE) for _ in range(length)]


def request_ids(batch: StepBatch | None) -> list[str]:
    assert batch
    return [row.request_id for row in batch.rows]


def row_lengths(batch: StepBatch | None) -> list[int]:
    assert batch
    return [len(row.token_ids) for row in batch.rows]


def indexes_of(request: Request) -> range:
    return range(request.sampling.n)


class Stepper:
    """Mutable: what each sequence got so far. The law is checked after everything it does.

    `drafter`, where there is one, gives the drafts of each step.
    """

    def __init__(  # noqa: PLR0913 - every knob of a scenario
        self,
        num_pages: int = 64,
        page_size: int = 4,
        *,
        max_num_seqs: int = 8,
        budget: int = 32,
        max_queue: int = 256,
        max_model_len: int | None = None,
        prefix_cache: bool = True,
    ) -> None:
        self.pool = PagePool(num_pages, page_size)
        self.limits = EngineLimits(max_model_len or num_pages * page_size, max_num_seqs, VOCAB_SIZE)
        config = EngineConfig(
            0,
            page_size=page_size,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget,
            max_queue=max_queue,
            prefix_cache=prefix_cache,
        )
        self.scheduler = Scheduler(config, self.limits, EOS, self.pool)
        self.model = FakeModel(page_size, VOCAB_SIZE)
        self.drafter: Callable[[Stepper], Iterable[Draft]] = lambda _: ()
        self.requests: dict[str, Request] = {}
        self.tokens: dict[Key, list[int]] = defaultdict(list)
        self.ends: dict[Key, FinishReason] = {}
        self.aborted: set[Key] = set()
        self.errors: dict[Key, str] = {}
        self.cached_tokens: dict[Key, int] = {}
        self._solos: dict[Key, Solo] = {}

    def add(self, request: Request) -> None:
        self.scheduler.add(request)
        self.requests[request.request_id] = request
        self.scheduler.check()

    def abort(self, request_id: str, index: int | None = None) -> None:
        self.scheduler.abort(request_id, index)
        self.aborted |= {
            key for key in self.live if key[0] == request_id and index in (None, key[1])
        }
        self.scheduler.check()

    def plan(self) -> StepBatch | None:
        """Open a step. The oldest running sequence is in it and was not preempted for it."""
        oldest = next(iter(self.scheduler.running), None)
        preemptions = oldest.num_preemptions if oldest else 0
        batch = self.scheduler.schedule(self.drafter(self))
        self.scheduler.check()
        if batch is None:
            assert not self.scheduler.has_work
            return None
        assert next(iter(self.scheduler.running)).reservation, "the oldest does not go on"
        assert oldest is None or oldest.num_preemptions == preemptions
        return batch

    def finish(self, batch: StepBatch) -> list[TokenEvent]:
        """Compute an open step and take its outcome."""
        return self.take(self.scheduler.update(batch, self.model.run(batch)))

    def step(self) -> StepBatch | None:
        """One whole step; None where there is no work."""
        batch = self.plan()
        if batch:
            self.finish(batch)
        return batch

    def run(self, max_steps: int = 2000) -> list[StepBatch]:
        """Step until there is no work."""
        batches = []
        while batch := self.step():
            batches.append(batch)
            assert len(batches) <= max_steps, "the work does not end"
        return batches

    def take(self, events: list[TokenEvent]) -> list[TokenEvent]:
        """Book what the events bring, and hold each end against the solo run."""
        for event in events:
            self._book(event)
        self.scheduler.check()
        return events

    @property
    def live(self) -> set[Key]:
        """The sequences that still have something to come."""
        keys = {(name, i) for name, request in self.requests.items() for i in indexes_of(request)}
        return keys - self.ends.keys() - self.aborted

    def solo(self, key: Key) -> Solo:
        if key not in self._solos:
            self._solos[key] = solo(self.requests[key[0]], key[1], self.limits, EOS)
        return self._solos[key]

    def _book(self, event: TokenEvent) -> None:
        key = event.request_id, event.index
        assert key not in self.ends, f"{key} goes on after its end"
        assert key not in self.aborted, f"{key} goes on after its abort"
        is_first = not self.tokens[key]
        if event.token_id is not None:
            self.tokens[key].append(event.token_id)
        self.cached_tokens[key] = event.cached_tokens
        if event.finish_reason:
            self.ends[key] = event.finish_reason
        if event.finish_reason is FinishReason.ERROR:
            assert event.error
            self.errors[key] = event.error
            return
        self._check_logprobs(event, is_first)
        self._check_text(key)

    def _check_logprobs(self, event: TokenEvent, is_first: bool) -> None:
        request = self.requests[event.request_id]
        wanted = is_first and request.sampling.prompt_logprobs is not None
        expected = solo_prompt_logprobs(request) if wanted else None
        assert event.prompt_logprobs == expected

    def _check_text(self, key: Key) -> None:
        expected = self.solo(key)
        got = self.tokens[key]
        newest = tuple(got[-1:])
        assert newest == expected.token_ids[: len(got)][-1:], f"{key} differs from its solo run"
        if key in self.ends:
            assert (tuple(got), self.ends[key]) == (expected.token_ids, expected.finish_reason)
