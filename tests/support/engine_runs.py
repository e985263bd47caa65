"""Runs requests through a real engine, step by step, and gathers what each of them got."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.build import engine_limits, kv_shape, make_engine, num_pages_of, warm_up
from engine.config import EngineConfig
from engine.engine import Engine
from engine.kv_storage import KVStorage
from engine.model_runner import ModelRunner
from engine.models import CausalLM
from engine.page_pool import PagePool
from engine.request import Request
from engine.scheduler import Scheduler
from engine.token_event import FinishReason, TokenEvent, TokenLogprob

MIB = 1 << 20
CONFIG = EngineConfig(kv_cache_bytes=8 * MIB, max_num_seqs=16, max_num_batched_tokens=512)


@dataclass
class Answer:
    """Everything one sequence was given."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    cached_tokens: int = field(default=0, compare=False)  # depends on who came before
    finish_reason: FinishReason | None = None
    error: str | None = None

    def take(self, event: TokenEvent) -> None:
        assert self.finish_reason is None, "an event after the end"
        if event.token_id is not None:
            self.tokens.append(event.token_id)
        if event.logprob is not None:
            self.logprobs.append(event.logprob)
        self.prompt_logprobs = event.prompt_logprobs or self.prompt_logprobs
        self.cached_tokens = event.cached_tokens
        self.finish_reason = event.finish_reason
        self.error = event.error


Answers = dict[tuple[str, int], Answer]  # by request id and index


def engine_for(
    model: CausalLM, *, draft_model: CausalLM | None = None, **changes: object
) -> Engine:
    """An engine around `model`; `changes` are fields of EngineConfig."""
    return make_engine(model, replace(CONFIG, **changes), draft_model)  # type: ignore[arg-type]


def growing_engine_for(model: CausalLM, **changes: object) -> Engine:
    """The same with pages whose arrays double, as on a GPU."""
    config = replace(CONFIG, **changes)  # type: ignore[arg-type]
    num_pages = num_pages_of(model, config)
    storage = KVStorage(kv_shape(model.spec, config), num_pages)
    runner = ModelRunner(model, storage, config.attention)
    warm_up(runner)
    limits = engine_limits(model.spec, config, num_pages)
    pool = PagePool(num_pages, config.page_size)
    return Engine(Scheduler(config, limits, model.spec.eos_token_ids, pool), runner)


def run(engine: Engine, requests: Sequence[Request], every: int = 0) -> Answers:
    """Run to the end; with `every` one request arrives each so many steps, else all at once.

    The laws hold after every step, and no page is held at the end.
    """
    answers: Answers = defaultdict(Answer)
    waiting = list(requests)
    num_steps = 0
    while waiting or engine.has_work:
        while waiting and num_steps >= every * (len(requests) - len(waiting)):
            engine.add(waiting.pop(0))
        for event in engine.step():
            answers[event.request_id, event.index].take(event)
        engine.check()
        num_steps += 1
    assert engine.stats().pages_used == 0
    assert all(answer.finish_reason for answer in answers.values())
    return answers


def solo(model: CausalLM, request: Request) -> Answers:
    """The request alone in a fresh engine."""
    return run(engine_for(model), [request])
