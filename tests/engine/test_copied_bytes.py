"""How many bytes of K/V an engine copies: none of what paged attention reads, all of what dense does."""

from collections.abc import Callable

from engine.config import AttentionKind
from engine.engine import Engine
from engine.engine_stats import CopiedBytes, EngineStats
from engine.models import CausalLM
from engine.request import Request, SamplingParams
from tests.support.engine_runs import engine_for, growing_engine_for, run

MakeEngine = Callable[..., Engine]
PAGE_SIZE = 4
PROMPT = 10


def stats_of(
    model: CausalLM,
    num_requests: int,
    new_tokens: int,
    make_engine: MakeEngine = engine_for,
    attention: AttentionKind = AttentionKind.PAGED,
) -> EngineStats:
    """Of requests of one length that run together, their prompts in one step."""
    engine = make_engine(model, page_size=PAGE_SIZE, prefix_cache=False, attention=attention)
    sampling = SamplingParams(new_tokens, temperature=0.0, ignore_eos=True)
    prompts = (tuple(range(i, i + PROMPT)) for i in range(num_requests))
    run(engine, [Request(str(i), prompt, sampling) for i, prompt in enumerate(prompts)])
    return engine.stats()


def gathered_pages(num_requests: int, new_tokens: int) -> int:
    """Every step gathers the pages of every sequence's context, its new token's included.

    One page more for the warm-up, which gathers too.
    """
    contexts = range(PROMPT, PROMPT + new_tokens)
    return num_requests * sum(-(-context // PAGE_SIZE) for context in contexts) + 1


def test_paged_attention_gathers_nothing(llama: CausalLM) -> None:
    assert stats_of(llama, 2, 5).kv_copied == CopiedBytes()


def test_dense_attention_gathers_every_page_in_every_step(llama: CausalLM) -> None:
    stats = stats_of(llama, 2, 5, attention=AttentionKind.DENSE)
    assert stats.kv_copied == CopiedBytes(gather=gathered_pages(2, 5) * stats.bytes_per_page)


def test_paged_attention_copies_at_least_99_percent_fewer_bytes(llama: CausalLM) -> None:
    """Where pages grow too: the copies of a pool that doubles from 16 to 128 of them count."""
    load = (2, 240)
    paged = stats_of(llama, *load, growing_engine_for)
    dense = stats_of(llama, *load, attention=AttentionKind.DENSE)
    assert paged.kv_copied == CopiedBytes(growth=(16 + 32 + 64) * paged.bytes_per_page)
    assert dense.kv_copied.gather == gathered_pages(*load) * dense.bytes_per_page
    assert paged.kv_copied.total <= 0.01 * dense.kv_copied.total


def test_each_choice_copies_the_half_full_page_that_it_shares(llama: CausalLM) -> None:
    """All three write in one step, and the source of a copy stays held until the step has ended."""
    engine = engine_for(llama, page_size=PAGE_SIZE)
    sampling = SamplingParams(3, temperature=1.0, n=3, ignore_eos=True)
    run(engine, [Request("r", tuple(range(PROMPT)), sampling)])
    stats = engine.stats()
    assert stats.kv_copied == CopiedBytes(pages=3 * stats.bytes_per_page)
