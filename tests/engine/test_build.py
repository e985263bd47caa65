"""From a checkpoint and a configuration to an engine, or to one line that says why not."""

import gc
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from engine.build import build_engine, engine_limits, load_engine
from engine.engine_stats import EngineStatus, LengthBound, StepReport
from engine.errors import ModelError
from engine.models import CausalLM
from engine.request import Request, SamplingParams
from server.bench.footprint import resident_bytes
from tests.support.checkpoints import Quantization, tiny_llama
from tests.support.engine_runs import CONFIG, engine_for
from tests.support.memory import WHERE_PAGES_ARE_RESERVED


class Silent:
    def step(self, report: StepReport) -> None: ...


async def test_a_built_engine_serves_on_the_running_loop(tmp_path: Path) -> None:
    loop = await build_engine(tiny_llama(tmp_path), CONFIG, Silent())
    assert loop.status is EngineStatus.READY
    stream = loop.submit(Request("a", (1, 2, 3), SamplingParams(4, ignore_eos=True)))
    assert len([event async for event in stream]) == 4
    await loop.stop(grace=0)


def test_a_model_that_does_not_load_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file or folder"):
        load_engine(tmp_path / "nothing", CONFIG)


def test_heads_beyond_the_kernels_are_one_error(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path, head_dim=320)
    with pytest.raises(ModelError, match="head size") as error:
        load_engine(folder, CONFIG)
    assert "\n" not in str(error.value)


def test_a_budget_below_one_page_is_refused_with_the_numbers(llama: CausalLM) -> None:
    per_page = engine_for(llama).stats().bytes_per_page
    with pytest.raises(
        ModelError, match=f"{per_page - 1} bytes does not hold one page of {per_page}"
    ):
        engine_for(llama, kv_cache_bytes=per_page - 1)
    assert engine_for(llama, kv_cache_bytes=per_page).stats().page_budget == 1


@pytest.mark.parametrize("page_size", [1, 16])
def test_a_budget_of_more_tokens_than_there_are_numbers_for_is_refused(
    llama: CausalLM, page_size: int
) -> None:
    with pytest.raises(ModelError, match="holds more than 2147483647 tokens"):
        engine_for(llama, kv_cache_bytes=100 << 40, page_size=page_size)


@pytest.mark.parametrize(
    ("max_model_len", "num_pages", "longest", "bound"),
    [
        (None, 1000, 512, LengthBound.MODEL),
        (100, 1000, 100, LengthBound.SETTING),
        (10_000, 1000, 512, LengthBound.MODEL),
        (None, 3, 48, LengthBound.PAGES),
        (100, 3, 48, LengthBound.PAGES),
    ],
)
def test_the_longest_request_is_what_model_setting_and_pages_allow(
    llama: CausalLM,
    max_model_len: int | None,
    num_pages: int,
    longest: int,
    bound: LengthBound,
) -> None:
    config = replace(CONFIG, max_model_len=max_model_len)
    limits = engine_limits(llama.spec, config, num_pages)
    assert (limits.max_model_len, limits.length_bound) == (longest, bound)


@WHERE_PAGES_ARE_RESERVED
def test_an_engine_starts_with_little_memory_and_counts_of_zero(llama: CausalLM) -> None:
    before = resident_bytes()
    engine = engine_for(llama, kv_cache_bytes=2 << 30)
    assert resident_bytes() - before < 1 << 28
    stats = engine.stats()
    assert stats.page_capacity == 1  # which the warm-up wrote to
    assert stats.page_budget > 100
    assert (stats.pages_used, stats.pages_cached, stats.generated_tokens) == (0, 0, 0)


@WHERE_PAGES_ARE_RESERVED
def test_a_budget_beyond_what_mlx_likes_to_hold_makes_no_step_wait(llama: CausalLM) -> None:
    """Above its limit MLX waits after each operation until memory is given back."""
    limit = mx.get_memory_limit()
    engine = engine_for(llama, kv_cache_bytes=limit + (1 << 30))
    assert mx.get_active_memory() > limit
    assert mx.get_active_memory() < mx.get_memory_limit()
    del engine
    mx.set_memory_limit(limit)


def test_the_model_stays_quantised_in_memory(tmp_path: Path) -> None:
    sizes = []
    for name, quantization in (("plain", None), ("small", Quantization(bits=4))):
        folder = tiny_llama(tmp_path / name, hidden_size=256, quantization=quantization)
        gc.collect()  # what earlier tests left would be given back in between
        before = mx.get_active_memory()
        engine = load_engine(folder, CONFIG)
        sizes.append(mx.get_active_memory() - before)
        del engine
    assert sizes[1] < sizes[0] - (1 << 20)
