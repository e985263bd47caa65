"""Small batches over shuffled pages, every number that must not be read a NaN, and their exact results."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tests.metal_emulator.numbers import FLOAT, Array, Element, Floats, decode, encode


@dataclass(frozen=True, slots=True)
class Layout:
    """How [T, H, D] lies in memory: its axes, the outermost first, and numbers between two of those."""

    axes: tuple[int, int, int] = (0, 1, 2)
    gap: int = 0

    def strides(self, shape: tuple[int, int, int]) -> tuple[int, ...]:
        outer, middle, inner = self.axes
        strides = [1, 1, 1]
        strides[middle] = shape[inner]
        strides[outer] = shape[inner] * shape[middle] + self.gap
        return tuple(strides)

    def place(self, rows: Array, element: Element) -> Array:
        """The memory; gaps hold NaN."""
        lying = rows.transpose(self.axes)
        flat = lying.reshape(len(lying), lying.shape[1] * lying.shape[2])
        nan = encode(np.full((len(lying), self.gap), np.nan), element)
        return np.ascontiguousarray(np.concatenate([flat, nan], axis=1))


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """A batch: row b has queries[b] queries at the end of contexts[b] tokens.

    `stray` tokens after the last row belong to no row. `absent`: (row, page index) whose page id is -1.
    """

    queries: tuple[int, ...]
    contexts: tuple[int, ...]
    q_type: Element = FLOAT
    page_type: Element = FLOAT
    head_dim: int = 64
    q_heads: int = 4
    kv_heads: int = 2
    page_size: int = 8
    window: int = 0
    soft_cap: float = 0.0
    sinks: bool = False
    stray: int = 0
    absent: tuple[tuple[int, int], ...] = ()
    q_layout: Layout = Layout()
    table_width: int = 0  # columns of the block table; 0: as many as needed and one

    @property
    def scale(self) -> float:
        return float(self.head_dim**-0.5)

    @property
    def num_tokens(self) -> int:
        return sum(self.queries) + self.stray

    @property
    def max_pages(self) -> int:
        return (
            self.table_width or max((-(-n // self.page_size) for n in self.contexts), default=0) + 1
        )

    @property
    def num_pages(self) -> int:
        return sum(-(-n // self.page_size) for n in self.contexts) + 3

    def shape(self) -> tuple[int, ...]:
        """The integers of AttentionShape in order."""
        return (
            self.q_type.code,
            self.page_type.code,
            self.num_tokens,
            len(self.queries),
            self.max_pages,
            self.num_pages,
            self.q_heads,
            self.kv_heads,
            self.page_size,
            self.head_dim,
            *self.q_layout.strides((self.num_tokens, self.q_heads, self.head_dim)),
            self.window,
            int(self.sinks),
        )


@dataclass(frozen=True, slots=True)
class AttentionData:
    arrays: Mapping[str, Array]  # by the names of launch::Buffer
    expected: Floats  # [T, H_q, D]


def attention_data(case: AttentionCase, seed: int) -> AttentionData:
    rng = np.random.default_rng(seed)
    table = _block_table(case, rng)
    shape = (case.num_pages, case.kv_heads, case.page_size, case.head_dim)
    keys, values = (encode(rng.standard_normal(shape), case.page_type) for _ in range(2))
    unseen = ~_seen_slots(case, table)  # [P, page_size]
    nan = encode(np.array([np.nan]), case.page_type)[0]
    keys.swapaxes(1, 2)[unseen] = nan
    values.swapaxes(1, 2)[unseen] = nan
    q = encode(rng.standard_normal((case.num_tokens, case.q_heads, case.head_dim)), case.q_type)
    sinks = rng.standard_normal(case.q_heads).astype(np.float32)
    arrays: dict[str, Array] = {
        "q": case.q_layout.place(q, case.q_type),
        "key_pages": keys,
        "value_pages": values,
        "block_table": table,
        "context_lens": np.array(case.contexts, np.int32),
        "query_start_locs": np.cumsum([0, *case.queries]).astype(np.int32),
        "out": encode(np.full(q.shape, np.nan), case.q_type),
    }
    if case.sinks:
        arrays["sinks"] = sinks
    return AttentionData(arrays, _reference(case, {**arrays, "q": q}))


def _block_table(case: AttentionCase, rng: np.random.Generator) -> Array:
    """Pages in shuffled order; what no row needs points far out of the pages."""
    table = np.full((len(case.contexts), case.max_pages), 1 << 30, np.int32)
    free = list(rng.permutation(case.num_pages))
    for row, context in enumerate(case.contexts):
        for i in range(min(-(-context // case.page_size), case.max_pages)):
            table[row, i] = free.pop()
    for row, i in case.absent:
        table[row, i] = -1
    return table


def _positions(case: AttentionCase, row: int, query: int) -> list[int]:
    """What a query sees."""
    position = case.contexts[row] - case.queries[row] + query
    first = max(0, position - case.window + 1) if case.window else 0
    absent = {i for absent_row, i in case.absent if absent_row == row}
    return [
        p
        for p in range(first, position + 1)
        if p // case.page_size < case.max_pages and p // case.page_size not in absent
    ]


def _seen_slots(case: AttentionCase, table: Array) -> Array:
    seen = np.zeros((case.num_pages, case.page_size), bool)
    for row, queries in enumerate(case.queries):
        for query in range(queries):
            for p in _positions(case, row, query):
                seen[table[row, p // case.page_size], p % case.page_size] = True
    return seen


def _reference(case: AttentionCase, arrays: Mapping[str, Array]) -> Floats:
    """Attention by definition, in float64."""
    q = decode(arrays["q"], case.q_type)
    keys = decode(arrays["key_pages"], case.page_type)
    values = decode(arrays["value_pages"], case.page_type)
    table = arrays["block_table"]
    result = np.zeros(q.shape)
    group = case.q_heads // case.kv_heads
    token = 0
    for row, queries in enumerate(case.queries):
        for query in range(queries):
            slots = [
                (table[row, p // case.page_size], p % case.page_size)
                for p in _positions(case, row, query)
            ]
            for head in range(case.q_heads if slots else 0):
                k = np.stack([keys[page, head // group, offset] for page, offset in slots])
                v = np.stack([values[page, head // group, offset] for page, offset in slots])
                sink = float(arrays["sinks"][head]) if case.sinks else -np.inf
                result[token, head] = _attend(case, q[token, head], k, v, sink)
            token += 1
    return result


def _attend(case: AttentionCase, q: Floats, k: Floats, v: Floats, sink: float) -> Floats:
    scores = k @ q * case.scale
    if case.soft_cap:
        scores = case.soft_cap * np.tanh(scores / case.soft_cap)
    top = max(scores.max(), sink)
    weights = np.exp(scores - top)
    return np.asarray(weights @ v / (weights.sum() + np.exp(sink - top)))


@dataclass(frozen=True, slots=True)
class CacheUpdateCase:
    """Writes at `slots`; -1 and slots past the pages are not written."""

    slots: tuple[int, ...]
    page_type: Element = FLOAT
    value_type: Element = FLOAT
    head_dim: int = 64
    kv_heads: int = 2
    page_size: int = 8
    num_pages: int = 3
    value_layout: Layout = Layout()

    def shape(self) -> tuple[int, ...]:
        """The fields of CacheUpdateShape in order."""
        return (
            self.page_type.code,
            self.value_type.code,
            len(self.slots),
            self.num_pages,
            self.kv_heads,
            self.page_size,
            self.head_dim,
            *self.value_layout.strides((len(self.slots), self.kv_heads, self.head_dim)),
        )


Case = AttentionCase | CacheUpdateCase


def cache_update_data(case: CacheUpdateCase, seed: int) -> tuple[Mapping[str, Array], Array]:
    """The arrays, and the pages afterwards."""
    rng = np.random.default_rng(seed)
    shape = (case.num_pages, case.kv_heads, case.page_size, case.head_dim)
    pages = encode(rng.standard_normal(shape), case.page_type)
    new = (len(case.slots), case.kv_heads, case.head_dim)
    values = encode(rng.standard_normal(new), case.value_type)
    expected = pages.copy()
    for token, slot in enumerate(case.slots):
        if 0 <= slot < case.num_pages * case.page_size:
            row = encode(decode(values[token], case.value_type), case.page_type)
            expected[slot // case.page_size, :, slot % case.page_size] = row
    arrays = {
        "pages": pages,
        "values": case.value_layout.place(values, case.value_type),
        "slot_mapping": np.array(case.slots, np.int32),
    }
    return arrays, expected
