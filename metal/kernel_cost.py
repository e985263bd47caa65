"""Bytes that a kernel must move and operations that it must do, whatever its schedule: the floor."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """`bytes`: from and to memory, each number once. `flops`: a multiply-add counts two."""

    bytes: int
    flops: int

    def floor_us(self, gigabytes_per_second: float, teraflops: float) -> float:
        """Microseconds, with loads and arithmetic side by side."""
        return max(self.bytes / gigabytes_per_second / 1e3, self.flops / teraflops / 1e6)


def linear_cost(rows: int, n: int, k: int, weight_bytes: int) -> Cost:
    """float32 x [rows, K] and y [rows, N]; the weight [N, K] is read once, as it is stored."""
    return Cost(bytes=weight_bytes + 4 * rows * (n + k), flops=2 * rows * n * k)


def row_cost(numbers: int, flops_each: int) -> Cost:
    """An operation on each of so many float32 numbers, all of them read and written."""
    return Cost(bytes=8 * numbers, flops=flops_each * numbers)


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """The heads of one layer; `itemsize` is the bytes of a number of q, K and V."""

    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    itemsize: int = 2


def cache_update_cost(heads: HeadSizes, tokens: int) -> Cost:
    """K and V: each row is read and written."""
    row = heads.num_kv_heads * heads.head_dim * heads.itemsize
    return Cost(bytes=2 * tokens * (2 * row + 4), flops=0)


def attention_cost(heads: HeadSizes, sequences: int, queries: int, context: int) -> Cost:
    """Sequences with `queries` new tokens each at the end of `context` tokens; causal.

    Each visible pair of a query head and a key takes 2 D flops for the score and 2 D for the value.
    """
    pairs = queries * context - queries * (queries - 1) // 2
    flops = 4 * sequences * pairs * heads.num_q_heads * heads.head_dim
    queries_and_results = 2 * queries * heads.num_q_heads
    keys_and_values = 2 * context * heads.num_kv_heads
    numbers = sequences * (queries_and_results + keys_and_values) * heads.head_dim
    return Cost(bytes=numbers * heads.itemsize, flops=flops)
