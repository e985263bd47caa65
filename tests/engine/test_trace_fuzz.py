"""Random traffic on the real engine in a pool for little more than one request: every text that
finishes is the text of that request alone. A failing trace replays from the seed in the test's id.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from engine.build import make_engine, num_pages_of, wire_engine
from engine.config import EngineConfig, SpeculationConfig
from engine.engine import Engine
from engine.models import CausalLM, load_model
from engine.request import Request
from tests.support.checkpoints import tiny_llama
from tests.support.engine_runs import Answer, Answers
from tests.support.recorded_drafts import Recorded
from tests.support.trace import Arrival, TraceShape, make_trace

PAGE_SIZE = 16
SHAPE = TraceShape(
    head_lengths=(0, PAGE_SIZE, 2 * PAGE_SIZE, 3 * PAGE_SIZE),
    body_lengths=(8, 60, 400),
    max_tokens=(1, 12, 40),
    vocab_size=256,
    max_n=2,
)
LONGEST = max(SHAPE.head_lengths) + max(SHAPE.body_lengths) + max(SHAPE.max_tokens)
NUM_PAGES = LONGEST * 13 // 10 // PAGE_SIZE
CONFIG = EngineConfig(0, page_size=PAGE_SIZE, max_num_seqs=12, max_num_batched_tokens=128)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    folder = tmp_path_factory.mktemp("long")
    return load_model(tiny_llama(folder, max_position_embeddings=512)).model


def config_for(model: CausalLM, num_pages: int) -> EngineConfig:
    spec = model.spec
    bytes_per_page = 2 * spec.num_layers * spec.num_kv_heads * spec.head_dim * PAGE_SIZE * 4
    return replace(CONFIG, kv_cache_bytes=num_pages * bytes_per_page)


def engine_with(model: CausalLM, num_pages: int, *, prefix_cache: bool) -> Engine:
    return make_engine(model, replace(config_for(model, num_pages), prefix_cache=prefix_cache))


@pytest.fixture(scope="module")
def solo_text(model: CausalLM) -> Callable[[Request], list[int]]:
    @functools.cache
    def longest(prompt: tuple[int, ...], presence_penalty: float) -> list[int]:
        sampling = replace(
            make_trace(0, SHAPE)[0].request.sampling,
            max_tokens=max(SHAPE.max_tokens),
            presence_penalty=presence_penalty,
            n=1,
        )
        engine = engine_with(model, LONGEST // PAGE_SIZE + 1, prefix_cache=False)
        engine.add(Request("solo", prompt, sampling))
        answer = Answer()
        while engine.has_work:
            for event in engine.step():
                answer.take(event)
        return answer.tokens

    def text(request: Request) -> list[int]:
        sampling = request.sampling
        tokens = longest(request.prompt_token_ids, sampling.presence_penalty)
        return tokens[: sampling.max_tokens]  # greedy: the shorter text is a head of the longer

    return text


def replay(engine: Engine, trace: tuple[Arrival, ...]) -> Answers:
    """Play the trace, one step of it a step of the engine; the laws hold after each."""
    answers: Answers = defaultdict(Answer)
    arrivals = iter(trace)
    upcoming = next(arrivals, None)
    aborts = {a.request.request_id: a.abort_step for a in trace if a.abort_step is not None}
    step = 0
    while upcoming or engine.has_work:
        while upcoming and upcoming.step <= step:
            engine.add(upcoming.request)
            upcoming = next(arrivals, None)
        for name in [name for name, at in aborts.items() if at <= step]:
            engine.abort(name)
            del aborts[name]
        for event in engine.step():
            answers[event.request_id, event.index].take(event)
        engine.check()
        step += 1
    return answers


def finished(answers: Answers) -> Iterator[tuple[str, Answer]]:
    return ((name, answer) for (name, _), answer in answers.items() if answer.finish_reason)


@pytest.mark.parametrize("prefix_cache", [True, False], ids=["cache", "no cache"])
@pytest.mark.parametrize("seed", range(10))
def test_every_finished_text_is_its_solo_text(
    model: CausalLM, solo_text: Callable[[Request], list[int]], seed: int, prefix_cache: bool
) -> None:
    trace = make_trace(seed, SHAPE)
    requests = {arrival.request.request_id: arrival.request for arrival in trace}
    engine = engine_with(model, NUM_PAGES, prefix_cache=prefix_cache)
    answers = replay(engine, trace)
    for name, answer in finished(answers):
        assert answer.tokens == solo_text(requests[name]), name
    kept = [a.request for a in trace if a.abort_step is None]
    ended = {key for key, answer in answers.items() if answer.finish_reason}
    assert ended >= {(r.request_id, i) for r in kept for i in range(r.sampling.n)}
    stats = engine.stats()
    assert stats.pages_used == 0
    assert (stats.prefix_hit_tokens > 0) == (stats.evictions > 0) == prefix_cache


def test_texts_with_drafts_are_their_solo_texts_too(
    model: CausalLM, solo_text: Callable[[Request], list[int]]
) -> None:
    """The proposer knows the texts and is wrong now and then, in a pool that is always full."""
    trace = make_trace(10, replace(SHAPE, num_requests=60))
    requests = {arrival.request.request_id: arrival.request for arrival in trace}
    texts = {(*r.prompt_token_ids, *solo_text(r)) for r in requests.values()}
    config = replace(config_for(model, NUM_PAGES), speculation=SpeculationConfig(6))
    proposer = Recorded(sorted(texts))
    engine = wire_engine(model, config, num_pages_of(model, config), proposer)
    answers = replay(engine, trace)
    assert len(answers) > 30
    for name, answer in finished(answers):
        assert answer.tokens == solo_text(requests[name]), name
    assert engine.stats().evictions > 0
    drafts = engine.stats().drafts
    assert drafts.accepted_tokens > 0
    assert drafts.rewound_tokens > 0
