"""Times the paged kernels on this machine's device: python -m metal.benchmark

With --bandwidth and --teraflops of the chip it also prints the floor of docs/metal.md, and how much
of the time the floor explains.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from metal.kernel_cost import Cost, HeadSizes, attention_cost, cache_update_cost
from metal.ops import paged_attention, paged_cache_update

HEADS = HeadSizes(num_q_heads=32, num_kv_heads=8, head_dim=64)  # of Llama 3.2 1B
PAGE_SIZE = 32
CALLS = 50  # in one evaluation, so that the cost of starting it does not count


@dataclass(frozen=True, slots=True)
class Work:
    """Sequences with `queries` new tokens at the end of `context` tokens."""

    name: str
    sequences: int
    queries: int
    context: int


WORK = (
    Work("decode, 1 sequence", 1, 1, 4096),
    Work("decode, 32 sequences", 32, 1, 4096),
    Work("prefill, 512 tokens", 1, 512, 512),
    Work("prefill, chunk at 4096", 1, 512, 4096),
)


@dataclass(frozen=True, slots=True)
class Timing:
    name: str
    microseconds: float
    cost: Cost


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    print(f"{mx.device_info().get('device_name', 'unknown')}, {HEADS}, pages of {PAGE_SIZE}")
    for timing in timings(WORK, options.calls):
        print(_line(timing, options.bandwidth, options.teraflops))
    return 0


def _options(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m metal.benchmark", description="Time the paged kernels.")
    parser.add_argument("--bandwidth", type=float, help="of the chip's memory, GB/s")
    parser.add_argument("--teraflops", type=float, help="of the chip's GPU in float32")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"default {CALLS}")
    return parser.parse_args(arguments)


def timings(work: Sequence[Work], calls: int) -> Iterator[Timing]:
    for item in work:
        yield time_attention(item, calls)
    for tokens in (1, 512):
        yield time_cache_update(tokens, calls)


def time_attention(work: Work, calls: int) -> Timing:
    pages_each = -(-work.context // PAGE_SIZE)
    num_pages = work.sequences * pages_each
    pages = _half(num_pages, HEADS.num_kv_heads, PAGE_SIZE, HEADS.head_dim)
    q = _half(work.sequences * work.queries, HEADS.num_q_heads, HEADS.head_dim)
    table = mx.arange(num_pages, dtype=mx.int32).reshape(work.sequences, pages_each)
    lens = mx.full((work.sequences,), work.context, dtype=mx.int32)
    starts = mx.arange(work.sequences + 1, dtype=mx.int32) * work.queries
    values = pages + 0
    mx.eval(pages, values, q, table, lens, starts)

    def call() -> mx.array:
        return paged_attention(q, pages, values, table, lens, starts, scale=HEADS.head_dim**-0.5)

    cost = attention_cost(HEADS, work.sequences, work.queries, work.context)
    return Timing(work.name, _microseconds(call, calls), cost)


def time_cache_update(tokens: int, calls: int) -> Timing:
    """K and V of one layer."""
    pages = _half(tokens // PAGE_SIZE + 1, HEADS.num_kv_heads, PAGE_SIZE, HEADS.head_dim)
    values = _half(tokens, HEADS.num_kv_heads, HEADS.head_dim)
    slots = mx.arange(tokens, dtype=mx.int32)
    mx.eval(pages, values, slots)
    one = _microseconds(lambda: paged_cache_update(pages, values, slots), calls)
    return Timing(f"cache update, {tokens} tokens", 2 * one, cache_update_cost(HEADS, tokens))


def _microseconds(call: Callable[[], mx.array], calls: int) -> float:
    """Of one call, the best of three evaluations of many."""
    mx.eval(call())
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        mx.eval([call() for _ in range(calls)])
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / calls


def _half(*shape: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(1)).astype(mx.float16)


def _line(timing: Timing, bandwidth: float | None, teraflops: float | None) -> str:
    us, cost = timing.microseconds, timing.cost
    rates = f"{cost.bytes / us / 1e3:8.1f} GB/s {cost.flops / us / 1e3:9.1f} GFLOP/s"
    line = f"{timing.name:26} {us:10.1f} us {rates}"
    if bandwidth is None or teraflops is None:
        return line
    floor = cost.floor_us(bandwidth, teraflops)
    return f"{line}   floor {floor:8.1f} us, {100 * floor / us:5.1f}% of the time"


if __name__ == "__main__":
    raise SystemExit(main())
