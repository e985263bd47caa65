"""An engine without a model: scripted tokens, paced by the test, faults on demand.

    engine = FakeEngine(tokenizer)
    engine.script("hello", " world")        # what follows this prompt; any other gets `fallback`
    engine.pause(); engine.advance(2)       # hand out two events of every live request, no more

It keeps to the borders of a real engine: admission is checked by `submit`, ends are announced
once, an aborted sequence gets no further event.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from engine.engine_stats import CopiedBytes, EngineLimits, EngineStats, EngineStatus
from engine.engine_view import EngineView, SequenceView
from engine.errors import EngineDead, Overloaded
from engine.pool_snapshot import PoolSnapshot
from engine.request import Request
from engine.request_check import check_request
from engine.token_event import FinishReason, TokenEvent, TokenLogprob
from server.text.tokenizer import Tokenizer

WORDS = " quick brown fox the page hello world answer of question and in is to"
EMPTY_STATS = EngineStats(
    pages_free=90,
    pages_used=4,
    pages_cached=6,
    page_capacity=32,
    page_size=16,
    bytes_per_page=1024,
    unused_tail_slots=8,
    requests_running=0,
    requests_waiting=0,
    pool_growths=1,
    kv_copied=CopiedBytes(growth=2048, pages=512, gather=64),
    page_copies=3,
    preemptions=2,
    evictions=5,
    prefix_query_tokens=40,
    prefix_hit_tokens=20,
    prompt_tokens=0,
    generated_tokens=0,
)


@dataclass(frozen=True)
class Fault:
    after: int  # tokens
    error: Exception | None  # None: the sequence fails in the ordinary way


@dataclass
class Call:
    """One submitted request, while it lives and after."""

    request: Request
    open_indexes: set[int]
    started: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self, index: int | None = None) -> None:
        self.open_indexes -= {index} if index is not None else set(self.open_indexes)
        if not self.open_indexes:
            self.ended.set()


class FakeEngine:
    """See the module. `calls` holds every request ever submitted, `live` those that still run."""

    def __init__(
        self, tokenizer: Tokenizer, *, max_model_len: int = 512, max_queue: int = 64
    ) -> None:
        self.limits = EngineLimits(max_model_len, 16, tokenizer.vocab_size)
        self.status = EngineStatus.READY
        self.fallback: Sequence[int] = tokenizer.encode(
            WORDS * 10, add_special=False, parse_special=False
        )
        self.calls: dict[str, Call] = {}
        self.aborted: list[tuple[str, int | None]] = []
        self.cached_tokens = 0
        self._max_queue = max_queue
        self._tokenizer = tokenizer
        self._scripts: dict[tuple[int, ...], Sequence[int]] = {}
        self._faults: dict[tuple[int, ...], Fault] = {}
        self._allowance: int | None = None  # events per live sequence; None: no pause
        self._moved = asyncio.Condition()
        self._arrived = asyncio.Event()
        self._generated = 0

    @property
    def live(self) -> list[Call]:
        return [call for call in self.calls.values() if call.open_indexes]

    def script(self, prompt: str | Sequence[int], answer: str | Sequence[int]) -> None:
        """Fixes what follows a prompt; after its end come eos tokens."""
        self._scripts[tuple(self._ids(prompt))] = self._ids(answer)

    def fail(self, prompt: str | Sequence[int], *, after: int = 1) -> None:
        """The sequences of this prompt fail after so many tokens."""
        self._faults[tuple(self._ids(prompt))] = Fault(after, None)

    def crash(self, prompt: str | Sequence[int], error: Exception, *, after: int = 1) -> None:
        """The events of this prompt's requests end with an exception."""
        self._faults[tuple(self._ids(prompt))] = Fault(after, error)

    def stats(self) -> EngineStats:
        return replace(
            EMPTY_STATS, requests_running=len(self.live), generated_tokens=self._generated
        )

    def submit(self, request: Request) -> AsyncIterator[TokenEvent]:
        if self.status is EngineStatus.DEAD:
            raise EngineDead("the engine has stopped")
        check_request(request, self.limits)
        if len(self.live) >= self._max_queue:
            raise Overloaded("the queue is full", retry_after=3)
        assert request.request_id not in self.calls, "ids are unique"
        call = Call(request, set(range(request.sampling.n)))
        self.calls[request.request_id] = call
        self._arrived.set()
        return self._run(call)

    def abort(self, request_id: str, index: int | None = None) -> None:
        self.aborted.append((request_id, index))
        if request_id in self.calls:
            self.calls[request_id].close(index)

    def snapshot(self) -> PoolSnapshot:
        return PoolSnapshot(page_size=16, num_pages=9, num_untouched=9, pages=())

    def view(self) -> EngineView:
        """One page for each live request, full but for one slot."""
        calls = self.live
        return EngineView(
            page_size=16,
            num_pages=100,
            num_touched=len(calls),
            holders=dict.fromkeys(range(len(calls)), 1),
            cached=(),
            sequences=tuple(_sequence_view(call, page) for page, call in enumerate(calls)),
        )

    def pause(self) -> None:
        """No event goes out until `advance` allows some."""
        self._allowance = 0

    async def advance(self, events: int) -> None:
        """Lets every live sequence hand out so many more events."""
        assert self._allowance is not None, "paused first"
        async with self._moved:
            self._allowance += events
            self._moved.notify_all()

    async def submitted(self, number: int) -> None:
        """Returns once so many requests have been submitted in all."""
        while len(self.calls) < number:
            self._arrived.clear()
            await self._arrived.wait()

    async def _run(self, call: Call) -> AsyncIterator[TokenEvent]:
        try:
            step = 0
            while call.open_indexes:
                if not await self._may_move(call, step):
                    return
                for index in sorted(call.open_indexes):
                    if index in call.open_indexes:
                        yield self._event(call, index, step)
                step += 1
        finally:
            call.close()

    async def _may_move(self, call: Call, step: int) -> bool:
        """Waits for the allowance of `step`, or for the end of the call: then False."""
        await asyncio.sleep(0)
        if self._allowance is not None and step >= self._allowance:
            moving = asyncio.ensure_future(self._wait_for(step))
            ending = asyncio.ensure_future(call.ended.wait())
            try:
                await asyncio.wait({moving, ending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                moving.cancel()
                ending.cancel()
                await asyncio.gather(moving, ending, return_exceptions=True)
        return not call.ended.is_set()

    async def _wait_for(self, step: int) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._allowance is None or step < self._allowance)

    def _event(self, call: Call, index: int, step: int) -> TokenEvent:
        event = self._failure(call.request, index, step) or self._next(call.request, index, step)
        if event.finish_reason is not None:
            call.close(index)
        self._generated += event.token_id is not None
        return event

    def _failure(self, request: Request, index: int, step: int) -> TokenEvent | None:
        fault = self._faults.get(request.prompt_token_ids)
        if fault is None or step < fault.after:
            return None
        if fault.error is not None:
            raise fault.error
        return TokenEvent(
            request.request_id, index, finish_reason=FinishReason.ERROR, error="logits are NaN"
        )

    def _next(self, request: Request, index: int, step: int) -> TokenEvent:
        sampling = request.sampling
        prompt = self._prompt_logprobs(request) if step == 0 else None
        if sampling.max_tokens == 0:
            return TokenEvent(
                request.request_id,
                index,
                prompt_logprobs=prompt,
                cached_tokens=self.cached_tokens,
                finish_reason=FinishReason.LENGTH,
            )
        token_id = self._token(request, index, step)
        return TokenEvent(
            request.request_id,
            index,
            token_id=token_id,
            logprob=None if sampling.logprobs is None else logprob_of(token_id, sampling.logprobs),
            prompt_logprobs=prompt,
            cached_tokens=self.cached_tokens if step == 0 else 0,
            finish_reason=self._finish(request, token_id, step),
        )

    def _token(self, request: Request, index: int, step: int) -> int:
        """The script's token; a sample with a temperature is shifted by its seed and index."""
        sampling = request.sampling
        if forced := [token for token, bias in sampling.logit_bias.items() if bias == 100]:
            return forced[0]
        script = self._scripts.get(request.prompt_token_ids, self.fallback)
        shift = (sampling.seed + index) % 7 if sampling.temperature and index else 0
        if step + shift < len(script):
            return script[step + shift]
        return min(self._tokenizer.eos_token_ids)

    def _finish(self, request: Request, token_id: int, step: int) -> FinishReason | None:
        sampling = request.sampling
        eos = frozenset() if sampling.ignore_eos else self._tokenizer.eos_token_ids
        if step + 1 > sampling.min_tokens and token_id in eos | sampling.stop_token_ids:
            return FinishReason.STOP
        used = len(request.prompt_token_ids) + step + 1
        if step + 1 >= sampling.max_tokens or used >= self.limits.max_model_len:
            return FinishReason.LENGTH
        return None

    def _prompt_logprobs(self, request: Request) -> tuple[TokenLogprob | None, ...] | None:
        top = request.sampling.prompt_logprobs
        if top is None:
            return None
        return (None, *(logprob_of(token, top) for token in request.prompt_token_ids[1:]))

    def _ids(self, text: str | Sequence[int]) -> Sequence[int]:
        if isinstance(text, str):
            return self._tokenizer.encode(text, add_special=False, parse_special=False)
        return text


def _sequence_view(call: Call, page: int) -> SequenceView:
    num_prompt_tokens = len(call.request.prompt_token_ids)
    return SequenceView(
        request_id=call.request.request_id,
        indexes=tuple(sorted(call.open_indexes)),
        is_running=True,
        page_ids=(page,),
        context_len=15,
        num_prompt_tokens=num_prompt_tokens,
        num_computed_tokens=num_prompt_tokens,
        num_cached_tokens=0,
        num_generated_tokens=0,
        max_tokens=call.request.sampling.max_tokens,
        num_preemptions=0,
    )


def logprob_of(token_id: int, top: int) -> TokenLogprob:
    """Made up, but always the same for a token: its own, then its neighbours'."""
    own = -0.5 - token_id / 1024
    others = ((token_id + place, own - place / 8) for place in range(top))
    return TokenLogprob(token_id, own, tuple(others))
