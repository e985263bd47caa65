"""Holds the GPU kernels to their CPU twins on small batches: what a Mac runs before it trusts them.

A kernel that does not compile, that raises or that gives other numbers is a failed check, never an
exception. Nothing here knows Metal: any two devices can be compared.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import mlx.core as mx

from metal.ops import paged_attention, paged_cache_update

TOLERANCES: Mapping[mx.Dtype, float] = {mx.float32: 1e-3, mx.float16: 5e-3, mx.bfloat16: 4e-2}
HEAD_DIMS = (64, 80, 96, 128, 256)
TIMED_RUNS = 5
_PAGE_SIZE = 16


@dataclass(frozen=True, slots=True)
class KernelFormat:
    """What kernels are compiled for: a model's dtype, its pages' dtype, and its heads."""

    dtype: mx.Dtype
    page_dtype: mx.Dtype
    head_dim: int
    num_q_heads: int = 4
    num_kv_heads: int = 2

    def __str__(self) -> str:
        pages = "" if self.dtype == self.page_dtype else f" over {_name(self.page_dtype)} pages"
        return f"{_name(self.dtype)} {self.head_dim}{pages}"


ALL_FORMATS = tuple(
    KernelFormat(dtype, dtype, head_dim) for dtype in TOLERANCES for head_dim in HEAD_DIMS
)


class PagedOps(Protocol):
    """The two paged operations somewhere; every call returns evaluated arrays."""

    def cache_update(
        self, pages: mx.array, values: mx.array, slot_mapping: mx.array
    ) -> mx.array: ...

    def attention(self, batch: "Batch", q: mx.array, pages: mx.array) -> mx.array: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows by their queries and contexts; with it come sinks, a window and a soft cap, or none."""

    name: str
    queries: tuple[int, ...]
    contexts: tuple[int, ...]
    window: int | None = None
    soft_cap: float | None = None
    sinks: bool = False

    @property
    def max_pages(self) -> int:
        return max(-(-context // _PAGE_SIZE) for context in self.contexts)

    @property
    def num_pages(self) -> int:
        return len(self.contexts) * self.max_pages

    def block_table(self) -> list[list[int]]:
        """Pages from the last to the first, so that order matters."""
        pages = iter(range(self.num_pages - 1, -1, -1))
        return [[next(pages) for _ in range(self.max_pages)] for _ in self.contexts]


# The schedules of paged_attention, each with what it has to leave out or to add.
BATCHES = (
    Batch("decode", (1, 1, 1), (1, 17, 70), window=40, sinks=True),
    Batch("decode, split", (1, 1), (900, 33)),
    Batch("prefill", (37,), (75,), soft_cap=5.0),
    Batch("prefill and decode", (1, 19, 3, 1), (40, 19, 60, 5), window=30, sinks=True),
)


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """`problem` is empty for a pass. Milliseconds: of the first run, compiling included; of a later one."""

    kernel: str
    format: KernelFormat
    problem: str
    first_ms: float
    run_ms: float


class DeviceOps:
    """The operations on one device of MLX."""

    def __init__(self, device: mx.Device) -> None:
        self._device = device

    def cache_update(self, pages: mx.array, values: mx.array, slot_mapping: mx.array) -> mx.array:
        with mx.stream(self._device):
            written = paged_cache_update(pages, values, slot_mapping)
            mx.eval(written)
        return written

    def attention(self, batch: Batch, q: mx.array, pages: mx.array) -> mx.array:
        """`pages` serve as keys, and reversed along D as values."""
        with mx.stream(self._device):
            values = mx.contiguous(pages[..., ::-1])
            result = paged_attention(
                q,
                pages,
                values,
                mx.array(batch.block_table(), mx.int32),
                mx.array(batch.contexts, mx.int32),
                mx.array(list(accumulate(batch.queries, initial=0)), mx.int32),
                scale=float(q.shape[-1]) ** -0.5,
                window=batch.window,
                soft_cap=batch.soft_cap,
                sinks=mx.arange(q.shape[1], dtype=mx.float32) - 1 if batch.sinks else None,
            )
            mx.eval(result)
        return result


def run_self_test(
    formats: Sequence[KernelFormat], tested: PagedOps, twin: PagedOps
) -> list[KernelCheck]:
    """Each kernel in each format against its twin."""
    return [check for format_ in formats for check in _check_format(format_, tested, twin)]


def _check_format(form: KernelFormat, tested: PagedOps, twin: PagedOps) -> list[KernelCheck]:
    tasks: list[_Task] = [_CacheUpdateTask(form)]
    tasks += [_AttentionTask(form, batch) for batch in BATCHES]
    return [_check(form, task, tested, twin) for task in tasks]


class _Task(Protocol):
    kernel: str

    def run(self, ops: PagedOps) -> mx.array: ...


class _AttentionTask:
    def __init__(self, form: KernelFormat, batch: Batch) -> None:
        self.kernel = f"paged_attention, {batch.name}"
        self._batch = batch
        tokens = sum(batch.queries)
        self._q = _numbers((tokens, form.num_q_heads, form.head_dim), form.dtype)
        shape = (batch.num_pages, form.num_kv_heads, _PAGE_SIZE, form.head_dim)
        self._pages = _numbers(shape, form.page_dtype)

    def run(self, ops: PagedOps) -> mx.array:
        return ops.attention(self._batch, self._q, self._pages)


class _CacheUpdateTask:
    """Three rows in a page and a half; one is padding."""

    def __init__(self, form: KernelFormat) -> None:
        self.kernel = "paged_cache_update"
        self._shape = (2, form.num_kv_heads, _PAGE_SIZE, form.head_dim)
        self._page_dtype = form.page_dtype
        self._values = _numbers((4, form.num_kv_heads, form.head_dim), form.dtype)

    def run(self, ops: PagedOps) -> mx.array:
        pages = mx.zeros(self._shape, self._page_dtype)
        mx.eval(pages)
        return ops.cache_update(pages, self._values, mx.array([21, -1, 3, 4], mx.int32))


def _check(form: KernelFormat, task: _Task, tested: PagedOps, twin: PagedOps) -> KernelCheck:
    try:
        first_ms, result = _timed(task, tested)
        run_ms = min(_timed(task, tested)[0] for _ in range(TIMED_RUNS))
        problem = _difference(result, task.run(twin), TOLERANCES[form.dtype])
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises is what the test looks for
        return KernelCheck(task.kernel, form, " ".join(str(error).split())[:300], 0.0, 0.0)
    return KernelCheck(task.kernel, form, problem, first_ms, run_ms)


def _timed(task: _Task, ops: PagedOps) -> tuple[float, mx.array]:
    start = time.perf_counter()
    result = task.run(ops)
    return 1000 * (time.perf_counter() - start), result


def _difference(result: mx.array, expected: mx.array, tolerance: float) -> str:
    """Empty if they agree. Compared on the CPU, in float32."""
    with mx.stream(mx.cpu):
        largest = mx.abs(result.astype(mx.float32) - expected.astype(mx.float32)).max()
        difference = float(largest)
    if difference <= tolerance:  # not so for a NaN
        return ""
    return f"differs by {difference:.3g} from the CPU's result, {tolerance:g} is allowed"


def _numbers(shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
    """Between -1 and 1 and always the same; without a random state."""
    count = 1
    for size in shape:
        count *= size
    with mx.stream(mx.cpu):
        steps = (mx.arange(count, dtype=mx.int32) * 7919) % 2003
        numbers = (steps.astype(mx.float32) / 1001 - 1).reshape(shape).astype(dtype)
        mx.eval(numbers)
    return numbers


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")
