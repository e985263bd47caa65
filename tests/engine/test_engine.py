"""A real model, real kernels, no loop: what a text may and may not depend on."""

import random

import pytest

from engine.config import AttentionKind, KVDtype
from engine.models import CausalLM
from engine.request import Request, SamplingParams
from engine.token_event import FinishReason
from tests.support.engine_runs import MIB, Answers, engine_for, growing_engine_for, run, solo
from tests.support.memory import WHERE_PAGES_ARE_RESERVED

VOCAB = 256  # token ids that every tiny model has


def prompt(length: int, seed: int = 0) -> tuple[int, ...]:
    rng = random.Random(f"{length} {seed}")
    return tuple(rng.randrange(VOCAB) for _ in range(length))


def greedy(name: str, tokens: tuple[int, ...], max_tokens: int = 12) -> Request:
    sampling = SamplingParams(max_tokens, temperature=0, logprobs=3, ignore_eos=True)
    return Request(name, tokens, sampling)


def mixed_requests() -> list[Request]:
    """Sixteen of very different lengths; every other one is sampled with a seed."""
    lengths = [1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 100, 127, 160, 200, 300]
    requests = []
    for i, length in enumerate(lengths):
        temperature, top_p = (0.0, 1.0) if i % 2 else (1.2, 0.95)
        sampling = SamplingParams(
            4 + i, temperature=temperature, top_p=top_p, seed=i, logprobs=2, ignore_eos=True
        )
        requests.append(Request(f"r{i}", prompt(length, i), sampling))
    return random.Random(3).sample(requests, len(requests))


@pytest.fixture(scope="module")
def solo_answers(llama: CausalLM) -> Answers:
    answers: Answers = {}
    for request in mixed_requests():
        answers |= solo(llama, request)
    return answers


@pytest.mark.parametrize("page_size", [1, 5, 16])
@pytest.mark.parametrize(("budget", "every"), [(17, 0), (64, 2), (512, 3)])
def test_neighbours_chunks_and_page_size_change_no_bit(
    llama: CausalLM, solo_answers: Answers, page_size: int, budget: int, every: int
) -> None:
    engine = engine_for(llama, page_size=page_size, max_num_batched_tokens=budget)
    assert run(engine, mixed_requests(), every) == solo_answers


def test_preemption_changes_no_bit(llama: CausalLM, solo_answers: Answers) -> None:
    engine = engine_for(llama, kv_cache_bytes=MIB * 3 // 4, max_num_batched_tokens=64)
    assert run(engine, mixed_requests()) == solo_answers
    assert engine.stats().preemptions > 0


def test_prefix_hits_change_no_bit(llama: CausalLM) -> None:
    head = prompt(70)
    requests = [greedy(f"r{i}", head + prompt(1 + 5 * i, i)) for i in range(6)]
    alone: Answers = {}
    for request in requests:
        alone |= solo(llama, request)
    engine = engine_for(llama)
    for request in requests:
        warm = run(engine, [request])[request.request_id, 0]
        cold = alone[request.request_id, 0]
        assert (warm.tokens, warm.logprobs) == (cold.tokens, cold.logprobs)
    assert warm.cached_tokens == 64
    assert engine.stats().prefix_hit_tokens == 5 * 64


def test_without_the_prefix_cache_nothing_is_kept(llama: CausalLM) -> None:
    engine = engine_for(llama, prefix_cache=False)
    for i in range(3):
        assert run(engine, [greedy(f"r{i}", prompt(70))])[f"r{i}", 0].cached_tokens == 0
    assert engine.stats().pages_cached == 0
    assert engine.stats().prefix_hit_tokens == 0


def test_identical_prompts_in_one_step_are_computed_once(llama: CausalLM) -> None:
    engine = engine_for(llama)
    answers = run(engine, [greedy(f"r{i}", prompt(100)) for i in range(4)])
    assert len({tuple(answer.tokens) for answer in answers.values()}) == 1
    assert engine.stats().prefix_hit_tokens == 3 * 96


def test_a_salt_keeps_requests_apart(llama: CausalLM) -> None:
    engine = engine_for(llama)
    sampling = SamplingParams(2, temperature=0)
    for salt in ("a", "b"):
        (answer,) = run(engine, [Request(salt, prompt(64), sampling, cache_salt=salt)]).values()
        assert answer.cached_tokens == 0
    (answer,) = run(engine, [Request("again", prompt(64), sampling, cache_salt="a")]).values()
    assert answer.cached_tokens == 48  # the last token is always computed


@pytest.mark.parametrize("every", [0, 1])
def test_forked_sequences_do_not_touch_each_other(llama: CausalLM, every: int) -> None:
    sampling = SamplingParams(20, temperature=1.5, seed=4, n=4, logprobs=0, ignore_eos=True)
    forked = Request("f", prompt(40), sampling)
    alone = solo(llama, forked)
    neighbours = [greedy(f"r{i}", prompt(30 + i)) for i in range(4)]
    small = engine_for(llama, max_num_batched_tokens=33, page_size=5)
    together = run(small, [forked, *neighbours], every)
    assert {key: together[key] for key in alone} == alone
    assert len({tuple(answer.tokens) for answer in alone.values()}) == 4


def test_the_full_pages_of_a_forked_prompt_exist_once(llama: CausalLM) -> None:
    engine = engine_for(llama, prefix_cache=False)
    engine.add(Request("f", prompt(40), SamplingParams(9, seed=1, n=8, ignore_eos=True)))
    engine.step()  # the prompt, and eight first tokens
    engine.step()
    assert engine.stats().pages_used == 2 + 8  # two full pages, a tail for each
    assert engine.stats().page_copies == 8
    run(engine, [])


def test_gathered_attention_gives_the_same_text(llama: CausalLM, solo_answers: Answers) -> None:
    engine = engine_for(llama, attention=AttentionKind.DENSE, max_num_batched_tokens=64)
    dense = run(engine, mixed_requests(), every=1)
    for key, answer in solo_answers.items():
        assert dense[key].tokens == answer.tokens
        for ours, other in zip(answer.logprobs, dense[key].logprobs, strict=True):
            assert ours.logprob == pytest.approx(other.logprob, abs=1e-4)


def test_another_family_obeys_the_same_law(qwen3: CausalLM) -> None:
    requests = mixed_requests()[:5]
    together = run(engine_for(qwen3, page_size=5, max_num_batched_tokens=48), requests, every=1)
    for request in requests:
        for key, answer in solo(qwen3, request).items():
            assert together[key] == answer


@pytest.mark.parametrize("dtype", [KVDtype.FLOAT16, KVDtype.BFLOAT16])
def test_half_precision_pages_are_half_as_large_and_nearly_as_good(
    llama: CausalLM, dtype: KVDtype
) -> None:
    full, half = engine_for(llama), engine_for(llama, kv_dtype=dtype)
    assert 2 * half.stats().bytes_per_page == full.stats().bytes_per_page
    request = greedy("r", prompt(50), max_tokens=1)
    (exact,) = run(full, [request]).values()
    (close,) = run(half, [request]).values()
    assert close.logprobs[0].logprob == pytest.approx(exact.logprobs[0].logprob, abs=0.05)
    assert close.logprobs[0].logprob != exact.logprobs[0].logprob


def scoring(name: str, tokens: tuple[int, ...], max_tokens: int = 0) -> Request:
    sampling = SamplingParams(
        max_tokens, temperature=0, prompt_logprobs=2, logprobs=2, ignore_eos=True
    )
    return Request(name, tokens, sampling)


def test_scoring_a_text_agrees_with_generating_it(llama: CausalLM) -> None:
    begin = prompt(20)
    (written,) = solo(llama, greedy("w", begin, max_tokens=30)).values()
    (scored,) = solo(llama, scoring("s", begin + tuple(written.tokens))).values()
    assert scored.finish_reason is FinishReason.LENGTH
    assert scored.tokens == []
    assert scored.prompt_logprobs is not None
    assert scored.prompt_logprobs[0] is None
    later = [p.logprob for p in scored.prompt_logprobs[20:] if p]
    assert later == [p.logprob for p in written.logprobs]


def test_scores_do_not_depend_on_chunks_neighbours_or_the_cache(llama: CausalLM) -> None:
    for length in (1, 15, 16, 17, 50):
        request = scoring("s", prompt(length), max_tokens=1)
        cold = solo(llama, request)
        engine = engine_for(llama, max_num_batched_tokens=23, max_num_seqs=8)
        run(engine, [greedy("plain", prompt(length))])  # its pages are cached now
        neighbours = [greedy(f"n{i}", prompt(length + i)) for i in range(3)]
        warm = run(engine, [*neighbours, request])["s", 0]
        assert warm == cold["s", 0]
        assert warm.prompt_logprobs is not None
        assert len(warm.prompt_logprobs) == length


def test_the_context_limit_ends_a_text_with_length(llama: CausalLM) -> None:
    (answer,) = run(engine_for(llama, max_model_len=40), [greedy("r", prompt(30), 99)]).values()
    assert len(answer.tokens) == 10
    assert answer.finish_reason is FinishReason.LENGTH


def test_an_eos_token_ends_a_text_unless_ignored(llama: CausalLM) -> None:
    (eos, *_) = sorted(llama.spec.eos_token_ids)
    bias = {eos: 100.0}
    for ignored, reason in ((False, FinishReason.STOP), (True, FinishReason.LENGTH)):
        sampling = SamplingParams(5, temperature=0, logit_bias=bias, ignore_eos=ignored)
        (answer,) = run(engine_for(llama), [Request("r", prompt(5), sampling)]).values()
        assert answer.finish_reason is reason
        assert set(answer.tokens) == {eos}


def test_min_tokens_holds_the_end_back(llama: CausalLM) -> None:
    (eos, *_) = sorted(llama.spec.eos_token_ids)
    sampling = SamplingParams(9, temperature=0, logit_bias={eos: 100.0}, min_tokens=4)
    (answer,) = run(engine_for(llama), [Request("r", prompt(5), sampling)]).values()
    assert answer.tokens[-1] == eos
    assert len(answer.tokens) == 5
    assert eos not in answer.tokens[:4]


def test_growth_in_mid_text_loses_nothing(llama: CausalLM) -> None:
    request = greedy("r", prompt(10), max_tokens=400)
    engine = growing_engine_for(llama, page_size=4)
    grown = run(engine, [request])
    assert grown == solo(llama, request)
    stats = engine.stats()
    assert stats.pool_growths >= 3
    assert 0 < stats.kv_copied.growth < 2 * stats.page_capacity * stats.bytes_per_page


@WHERE_PAGES_ARE_RESERVED
def test_on_linux_no_page_is_ever_copied_to_make_room(llama: CausalLM) -> None:
    engine = engine_for(llama, page_size=4)
    run(engine, [greedy("r", prompt(10), max_tokens=400)])
    stats = engine.stats()
    assert stats.page_capacity == -(-(10 + 400 - 1) // 4)
    assert (stats.pool_growths, stats.kv_copied.total) == (0, 0)


def test_page_counts_level_off_over_many_requests(llama: CausalLM) -> None:
    engine = engine_for(llama, kv_cache_bytes=MIB)
    capacities = []
    for i in range(60):
        run(engine, [greedy(f"r{i}", prompt(60, i), max_tokens=3)])
        capacities.append(engine.stats().page_capacity)
    stats = engine.stats()
    assert capacities[30] == capacities[-1] == stats.page_budget
    assert stats.evictions > 0


def test_aborts_at_any_step_give_every_page_back(llama: CausalLM) -> None:
    for steps in range(6):
        engine = engine_for(llama, prefix_cache=False, max_num_batched_tokens=17)
        engine.add(greedy("stays", prompt(20)))
        engine.add(greedy("goes", prompt(60), max_tokens=50))
        answers = []
        for _ in range(steps):
            answers += engine.step()
        engine.abort("goes")
        engine.check()
        rest = run(engine, [])
        assert rest["stays", 0].finish_reason is FinishReason.LENGTH
        assert ("goes", 0) not in rest
