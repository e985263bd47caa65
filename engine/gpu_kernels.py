"""Which kernels an engine may use: on a GPU, those that passed their self-test there.

A kernel that fails is not used: then K/V is written and attended to with MLX's own operations,
which is slower and right, and one line of the log says so.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.config import AttentionKind
from engine.kv_pages import WriteRows, write_with_kernel, write_with_mlx
from engine.models import ModelSpec
from metal.self_test import (
    ALL_FORMATS,
    DeviceOps,
    KernelCheck,
    KernelFormat,
    PagedOps,
    run_self_test,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kernels:
    """How an engine attends, and how it writes K/V."""

    attention: AttentionKind
    write_rows: WriteRows


def kernel_format(spec: ModelSpec, page_dtype: mx.Dtype) -> KernelFormat:
    heads = spec.num_attention_heads, spec.num_kv_heads
    return KernelFormat(spec.dtype, page_dtype, spec.head_dim, *heads)


def choose_kernels(wanted: AttentionKind, form: KernelFormat) -> Kernels:
    """For the device that computes. On the GPU the self-test runs, in this format: under a second."""
    device = mx.default_device()
    if device.type == mx.DeviceType.cpu:
        return Kernels(wanted, write_with_kernel)
    return trusted_kernels(wanted, form, DeviceOps(device), DeviceOps(mx.Device(mx.cpu)))


def trusted_kernels(
    wanted: AttentionKind, form: KernelFormat, tested: PagedOps, twin: PagedOps
) -> Kernels:
    """`wanted` if every check passes; else what needs no kernel of ours, and a line in the log."""
    failed = [check for check in run_self_test([form], tested, twin) if check.problem]
    if not failed:
        return Kernels(wanted, write_with_kernel)
    log.error(
        "the GPU kernels failed their self-test (%s); attention runs on MLX's own operations over "
        "gathered pages, which is slower; please report what octavo doctor prints",
        "; ".join(f"{check.kernel}, {check.format}: {check.problem}" for check in failed),
    )
    return Kernels(AttentionKind.DENSE, write_with_mlx)


@dataclass(frozen=True, slots=True)
class CheckedKernel:
    """A check for people to read: kernel, format, and the times or what went wrong."""

    passed: bool
    line: str


def self_test() -> list[CheckedKernel] | None:
    """Every kernel in every format on this machine's GPU; None without one."""
    if not mx.metal.is_available():
        return None
    gpu, cpu = DeviceOps(mx.Device(mx.gpu)), DeviceOps(mx.Device(mx.cpu))
    return checked_kernels(run_self_test(ALL_FORMATS, gpu, cpu))


def checked_kernels(checks: Sequence[KernelCheck]) -> list[CheckedKernel]:
    return [CheckedKernel(not check.problem, _line(check)) for check in checks]


def _line(check: KernelCheck) -> str:
    result = check.problem or f"{check.run_ms:8.3f} ms, first {check.first_ms:8.1f} ms"
    return f"{check.kernel:36} {check.format!s:14} {result}"
