"""A real model with drafts: the same text, bit for bit, and the same distribution."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.build import kv_shape, num_pages_of, wire_engine
from engine.config import AttentionKind, EngineConfig, SpeculationConfig
from engine.engine import Engine
from engine.engine_stats import EngineLimits
from engine.kv_storage import KVStorage
from engine.model_runner import ModelRunner
from engine.models import CausalLM, load_model
from engine.page_pool import PagePool
from engine.proposer import DraftRound
from engine.request import Request, SamplingParams
from engine.sampler import Floats, sample
from engine.scheduler import Scheduler
from engine.step_batch import Draw, Drawn, Row, RowResult, StepBatch, StepResult
from tests.support.checkpoints import tiny_llama
from tests.support.engine_runs import CONFIG, MIB, Answers, engine_for, run
from tests.support.fake_runner import FakeRunner
from tests.support.recorded_drafts import Recorded

SPECULATION = SpeculationConfig(max_draft_tokens=6)


def with_proposer(model: CausalLM, proposer: Recorded, **changes: object) -> Engine:
    """An engine whose drafts come from `proposer`."""
    config = replace(CONFIG, speculation=SPECULATION, **changes)  # type: ignore[arg-type]
    return wire_engine(model, config, num_pages_of(model, config), proposer)


def mixed_requests() -> list[Request]:
    dice = random.Random(5)
    kinds: list[dict[str, object]] = [
        {"temperature": 0},
        {"temperature": 0, "logprobs": 2},
        {"temperature": 1.1, "top_p": 0.9, "seed": 3},
        {"temperature": 0.7, "seed": 4, "logprobs": 0, "n": 2},
        {"temperature": 0, "presence_penalty": 0.6, "repetition_penalty": 1.2},
        {
            "temperature": 0.9,
            "seed": 8,
            "logit_bias": {5: 4.0, 9: -100.0},
            "frequency_penalty": 0.4,
        },
        {"temperature": 0, "min_tokens": 7, "stop_token_ids": frozenset(range(0, 256, 5))},
        {"temperature": 0, "prompt_logprobs": 1},
    ]
    return [
        Request(
            f"r{i}",
            tuple(dice.randrange(256) for _ in range(3 + 9 * i)),
            SamplingParams(10 + 3 * i, ignore_eos=True, **kind),  # type: ignore[arg-type]
        )
        for i, kind in enumerate(kinds)
    ]


@pytest.fixture(scope="module")
def plain(llama: CausalLM) -> Answers:
    return run(engine_for(llama), mixed_requests())


@pytest.fixture(scope="module")
def texts(plain: Answers) -> list[tuple[int, ...]]:
    prompts = {request.request_id: request.prompt_token_ids for request in mixed_requests()}
    return [(*prompts[name], *answer.tokens) for (name, _), answer in plain.items()]


@pytest.mark.parametrize(
    ("changes", "every"),
    [
        ({}, 0),
        ({"page_size": 5, "max_num_batched_tokens": 40}, 2),
        ({"page_size": 1, "prefix_cache": False}, 1),
    ],
)
def test_drafts_change_no_bit_whatever_else_is_asked(
    llama: CausalLM,
    plain: Answers,
    texts: list[tuple[int, ...]],
    changes: dict[str, object],
    every: int,
) -> None:
    engine = with_proposer(llama, Recorded(texts), **changes)
    assert run(engine, mixed_requests(), every) == plain
    drafts = engine.stats().drafts
    assert drafts.accepted_tokens > 20
    assert drafts.rewound_tokens > 5


def test_gathered_attention_accepts_the_same_drafts(
    llama: CausalLM, plain: Answers, texts: list[tuple[int, ...]]
) -> None:
    engine = with_proposer(llama, Recorded(texts), attention=AttentionKind.DENSE)
    answers = run(engine, mixed_requests(), every=1)
    assert {key: a.tokens for key, a in answers.items()} == {
        key: a.tokens for key, a in plain.items()
    }
    assert engine.stats().drafts.accepted_tokens > 20


def test_preempted_sequences_are_drafted_for_again(
    llama: CausalLM, plain: Answers, texts: list[tuple[int, ...]]
) -> None:
    engine = with_proposer(llama, Recorded(texts), kv_cache_bytes=MIB // 4)
    assert run(engine, mixed_requests()) == plain
    assert engine.stats().preemptions > 0
    assert engine.stats().drafts.accepted_tokens > 0


def test_a_text_that_repeats_itself_takes_fewer_steps_with_ngrams(llama: CausalLM) -> None:
    request = Request(
        "r",
        (7, 8, 9, 10) * 6,
        SamplingParams(40, temperature=0, ignore_eos=True, logit_bias={7: 60.0, 8: 60.0}),
    )
    engine = engine_for(llama, speculation=SPECULATION)
    assert run(engine, [request]) == run(engine_for(llama), [request])
    drafts = engine.stats().drafts
    assert drafts.accepted_tokens > 20
    assert drafts.accepted_at[0] >= drafts.accepted_at[-1]


def test_a_draft_model_like_the_model_is_always_right(llama: CausalLM) -> None:
    request = Request("r", tuple(range(30)), SamplingParams(40, temperature=0, ignore_eos=True))
    engine = engine_for(llama, speculation=SPECULATION, draft_model=llama)
    assert run(engine, [request]) == run(engine_for(llama), [request])
    drafts = engine.stats().drafts
    assert drafts.rewound_tokens == 0
    assert drafts.accepted_tokens > 25


def test_any_draft_model_leaves_every_text_as_it_is(
    llama: CausalLM, plain: Answers, tmp_path: Path
) -> None:
    other = load_model(tiny_llama(tmp_path, num_layers=1, seed=7)).model
    engine = engine_for(llama, speculation=SPECULATION, draft_model=other, page_size=5)
    assert run(engine, mixed_requests(), every=2) == plain
    assert engine.stats().drafts.drafted_tokens > 0


def test_the_budget_is_shared_with_the_draft_model(llama: CausalLM, tmp_path: Path) -> None:
    small = load_model(tiny_llama(tmp_path, num_layers=1)).model
    alone = engine_for(llama).stats()
    shared = engine_for(llama, speculation=SPECULATION, draft_model=small).stats()
    assert shared.page_budget == alone.page_budget * 2 // 3  # two layers and one


def test_nothing_is_drawn_after_the_first_wrong_draft(llama: CausalLM) -> None:
    """The draws after it would belong to another text, and sampling costs time on the host."""
    drawn: list[int] = []

    def note(logits: Floats, draw: Draw) -> Drawn:
        drawn.append(draw.position)
        return sample(logits, draw)

    storage = KVStorage(kv_shape(llama.spec, CONFIG), num_pages=1)
    runner = ModelRunner(llama, storage, AttentionKind.PAGED, note)

    def run_row(*drafts: int) -> tuple[Drawn, ...]:
        drawn.clear()
        sampling = SamplingParams(9, temperature=0, logprobs=0)
        draws = tuple(Draw(sampling, 0, position) for position in range(1, len(drafts) + 2))
        tokens = (5, *drafts)
        row = Row("r", tokens, 0, (0,), tuple(range(len(tokens))), draws)
        return runner.run(StepBatch((row,), num_pages=1)).rows[0].drawn

    first = run_row()[0].token_id
    assert first is not None
    second = run_row(first)[1].token_id
    assert second is not None
    assert [d.token_id for d in run_row(first, second + 1, 3, 4)] == [first, second]
    assert drawn == [1, 2]
    assert len(run_row(first + 1, second, 3)) == 1
    assert drawn == [1]


# --- faults of a proposer ---


class Failing:
    """Raises, or answers what no proposer should."""

    needs_device = False

    def __init__(self, answer: list[tuple[int, ...]] | None = None) -> None:
        self._answer = answer

    def propose(self, _: DraftRound) -> list[tuple[int, ...]]:
        if self._answer is None:
            raise MemoryError("no memory left on the device")
        return self._answer


@pytest.mark.parametrize("answer", [None, [], [(1,), (2,)]], ids=["raises", "too few", "too many"])
def test_a_proposer_that_fails_hurts_nobody_and_is_counted(
    answer: list[tuple[int, ...]] | None,
) -> None:
    config = EngineConfig(0, page_size=4, speculation=SPECULATION)
    scheduler = Scheduler(config, EngineLimits(64, 4, 64), frozenset(), PagePool(16, 4))
    runner = FakeRunner(4)
    request = Request("a", (1, 2, 3), SamplingParams(20))
    alone = Scheduler(config, EngineLimits(64, 4, 64), frozenset(), PagePool(16, 4))
    engine = Engine(scheduler, runner, Failing(answer))
    assert run(engine, [request]) == run(Engine(alone, FakeRunner(4)), [request])
    assert engine.stats().drafts.proposer_failures >= 3
    assert engine.stats().drafts.drafted_tokens == 0


# --- unseeded sampling keeps the model's distribution ---


class Chain:
    """A model of five tokens in which each depends on the one before; drawn as the engine draws."""

    LOGITS = np.array(
        [[0, 1, 2, 0, 1], [2, 0, 0, 1, 0], [0, 0, 1, 2, 2], [1, 1, 0, 0, 1], [3, 0, 1, 0, 0]],
        np.float32,
    )

    def run(self, batch: StepBatch) -> StepResult:
        return StepResult(tuple(self._row(row) for row in batch.rows))

    def _row(self, row: Row) -> RowResult:
        drawn = []
        for draw in row.draws:
            before = row.token_ids[draw.position - 1 - row.start]
            drawn.append(sample(self.LOGITS[before], draw))
            if not row.goes_on_with(draw.position, drawn[-1].token_id):
                break
        return RowResult(tuple(drawn))

    def storage_stats(self) -> object:
        return FakeRunner(4).storage_stats()


class Constant:
    """Drafts the same tokens for everybody, likely or not."""

    needs_device = False

    def propose(self, drafting: DraftRound) -> list[tuple[int, ...]]:
        return [(2, 3, 1)[: ask.num_tokens] for ask in drafting.asks]


def test_sampled_texts_keep_the_models_distribution() -> None:
    """Frequencies of the 25 pairs after the first token against their exact probabilities:
    chi-squared with 24 degrees of freedom is above 60 once in ten thousand times."""
    num_texts = 1200
    config = EngineConfig(0, page_size=4, max_num_seqs=1, speculation=SPECULATION)
    scheduler = Scheduler(config, EngineLimits(16, 1, 5), frozenset(), PagePool(4, 4))
    engine = Engine(scheduler, Chain(), Constant())  # type: ignore[arg-type]
    dice = random.Random(11)
    pairs: Counter[tuple[int, int]] = Counter()
    for i in range(num_texts):
        request = Request(str(i), (0,), SamplingParams(4, seed=dice.getrandbits(64)))
        (answer,) = run(engine, [request]).values()
        pairs[answer.tokens[1], answer.tokens[2]] += 1
    weights = np.exp(Chain.LOGITS.astype(np.float64))
    step = weights / weights.sum(axis=1, keepdims=True)
    expected = num_texts * (step[0] @ step)[:, None] * step
    observed = np.array([[pairs[a, b] for b in range(5)] for a in range(5)])
    assert float(((observed - expected) ** 2 / expected).sum()) < 60
    assert engine.stats().drafts.accepted_tokens > 200
    assert engine.stats().drafts.rewound_tokens > 200
