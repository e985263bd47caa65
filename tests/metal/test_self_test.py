"""The self-test passes right kernels and finds wrong ones; here both sides are the CPU."""

import mlx.core as mx
import pytest

from metal.self_test import (
    ALL_FORMATS,
    DeviceOps,
    KernelFormat,
    PagedOps,
    run_self_test,
)
from tests.support.broken_ops import LostUpdate, NaNAttention, NotCompiling, WrongAttention

CPU = DeviceOps(mx.cpu)
FORMAT = KernelFormat(mx.float32, mx.float32, 64)


def failed(tested: PagedOps) -> dict[str, str]:
    return {c.kernel: c.problem for c in run_self_test([FORMAT], tested, CPU) if c.problem}


@pytest.mark.parametrize("form", ALL_FORMATS, ids=str)
def test_right_kernels_pass_in_every_format(form: KernelFormat) -> None:
    checks = run_self_test([form], CPU, CPU)
    assert [check.problem for check in checks] == [""] * 5
    assert all(check.first_ms > 0 and check.run_ms > 0 for check in checks)


def test_a_wrong_number_fails_every_schedule_of_attention_and_nothing_else() -> None:
    problems = failed(WrongAttention(mx.cpu))
    assert len(problems) == 4
    assert all(name.startswith("paged_attention") for name in problems)
    assert problems["paged_attention, decode"] == (
        "differs by 1 from the CPU's result, 0.001 is allowed"
    )


def test_a_nan_is_a_difference() -> None:
    assert "differs by nan" in failed(NaNAttention(mx.cpu))["paged_attention, prefill"]


def test_a_write_that_does_not_happen_is_found() -> None:
    assert list(failed(LostUpdate(mx.cpu))) == ["paged_cache_update"]


def test_a_kernel_that_does_not_compile_is_a_failed_check_with_its_message() -> None:
    problem = failed(NotCompiling(mx.cpu))["paged_attention, decode"]
    assert problem == "[metal::Device] Unable to build metal library from source error: ..."


def test_a_format_reads_well() -> None:
    assert str(KernelFormat(mx.bfloat16, mx.float16, 128)) == "bfloat16 128 over float16 pages"
