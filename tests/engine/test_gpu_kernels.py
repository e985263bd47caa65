"""What an engine does with the result of the self-test. Both sides are the CPU; one has a mistake."""

import logging

import mlx.core as mx
import pytest

from engine.build import engine_limits, kv_shape
from engine.config import AttentionKind
from engine.engine import Engine
from engine.gpu_kernels import Kernels, checked_kernels, choose_kernels, self_test, trusted_kernels
from engine.kv_pages import write_with_kernel, write_with_mlx
from engine.kv_storage import KVStorage
from engine.model_runner import ModelRunner
from engine.models import CausalLM
from engine.page_pool import PagePool
from engine.request import Request, SamplingParams
from engine.scheduler import Scheduler
from metal.self_test import DeviceOps, KernelFormat, run_self_test
from tests.support.broken_ops import LostUpdate, NotCompiling, WrongAttention
from tests.support.engine_runs import CONFIG, run

CPU = DeviceOps(mx.cpu)
FORMAT = KernelFormat(mx.float32, mx.float32, 64)
FALLBACK = Kernels(AttentionKind.DENSE, write_with_mlx)


@pytest.mark.parametrize("wanted", AttentionKind)
def test_kernels_that_pass_are_used_and_nothing_is_said(
    wanted: AttentionKind, caplog: pytest.LogCaptureFixture
) -> None:
    assert trusted_kernels(wanted, FORMAT, CPU, CPU) == Kernels(wanted, write_with_kernel)
    assert caplog.records == []


@pytest.mark.parametrize("broken", [WrongAttention, LostUpdate, NotCompiling])
def test_a_kernel_that_fails_is_replaced_with_one_line_in_the_log(
    broken: type[DeviceOps], caplog: pytest.LogCaptureFixture
) -> None:
    assert trusted_kernels(AttentionKind.PAGED, FORMAT, broken(mx.cpu), CPU) == FALLBACK
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "\n" not in record.getMessage()
    assert "failed their self-test" in record.getMessage()
    assert "octavo doctor" in record.getMessage()


def test_on_a_cpu_nothing_is_tested() -> None:
    assert choose_kernels(AttentionKind.PAGED, FORMAT) == Kernels(
        AttentionKind.PAGED, write_with_kernel
    )


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_mlx_writes_what_the_kernel_writes_and_leaves_the_old_array(dtype: mx.Dtype) -> None:
    pages = mx.random.normal((3, 2, 5, 8), key=mx.random.key(1)).astype(dtype)
    values = mx.random.normal((4, 2, 8), key=mx.random.key(2))
    slots = mx.array([14, 0, 5, 9], mx.int32)
    before = mx.array(pages) + 0
    mx.eval(before)
    written = write_with_mlx(pages, values, slots)
    mx.eval(written)
    assert mx.array_equal(pages, before)
    assert mx.array_equal(written, write_with_kernel(pages, values, slots))


def engine_with(model: CausalLM, kernels: Kernels) -> Engine:
    shape, num_pages = kv_shape(model.spec, CONFIG), 64
    pool = PagePool(num_pages, CONFIG.page_size)
    limits = engine_limits(model.spec, CONFIG, num_pages)
    scheduler = Scheduler(CONFIG, limits, model.spec.eos_token_ids, pool)
    storage = KVStorage(shape, num_pages, kernels.write_rows)
    return Engine(scheduler, ModelRunner(model, storage, kernels.attention))


def test_an_engine_without_kernels_gives_the_same_tokens(llama: CausalLM) -> None:
    """Forks copy pages and prompts share them; all of it through MLX's own operations."""
    head = tuple(range(3, 40))
    requests = [
        Request("a", (*head, 7), SamplingParams(6, temperature=0, ignore_eos=True)),
        Request("b", head, SamplingParams(4, seed=8, n=3, ignore_eos=True)),
    ]
    with_kernels = Kernels(AttentionKind.PAGED, write_with_kernel)
    expected = run(engine_with(llama, with_kernels), requests)
    fallback = run(engine_with(llama, FALLBACK), requests)
    assert [a.tokens for a in fallback.values()] == [a.tokens for a in expected.values()]


def test_a_report_names_what_passed_and_what_failed() -> None:
    checks = checked_kernels(run_self_test([FORMAT], WrongAttention(mx.cpu), CPU))
    assert [check.passed for check in checks] == [True, False, False, False, False]
    assert "paged_cache_update" in checks[0].line
    assert "float32 64" in checks[0].line
    assert checks[1].line.endswith("differs by 1 from the CPU's result, 0.001 is allowed")


def test_without_a_gpu_there_is_nothing_to_report() -> None:
    assert (self_test() is None) == (not mx.metal.is_available())
