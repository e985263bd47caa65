"""Ragged batches over scattered pages, with NaN in every slot that nothing may read."""

from dataclasses import dataclass, field, replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

import metal
from tests.metal import oracles


@dataclass(frozen=True)
class Shape:
    """Sizes and dtypes of a batch; ``lengths`` holds (context_len, queries) of each row."""

    lengths: tuple[tuple[int, int], ...]
    q_heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    page_size: int = 16
    q_dtype: mx.Dtype = mx.float32
    page_dtype: mx.Dtype = mx.float32
    magnitude: float = 1.0


@dataclass(frozen=True)
class Tokens:
    """The numbers of a batch before they are laid into pages, per row: [n, heads, D]."""

    queries: list[NDArray[np.float32]]
    keys: list[NDArray[np.float32]]
    values: list[NDArray[np.float32]]


@dataclass(frozen=True)
class Batch:
    """The arguments of ``paged_attention``."""

    q: mx.array
    key_pages: mx.array
    value_pages: mx.array
    block_table: mx.array
    context_lens: mx.array
    query_start_locs: mx.array
    options: dict[str, object] = field(default_factory=dict)

    def with_options(self, **options: object) -> "Batch":
        return replace(self, options=options)

    def attend(self) -> mx.array:
        result = metal.paged_attention(*self._arrays(), scale=self._scale(), **self.options)
        mx.eval(result)
        return result

    def expected(self) -> oracles.Floats:
        return oracles.paged_attention(*self._arrays(), scale=self._scale(), **self.options)

    def _scale(self) -> float:
        return float(self.q.shape[2] ** -0.5)

    def _arrays(self) -> tuple[mx.array, ...]:
        return (
            self.q,
            self.key_pages,
            self.value_pages,
            self.block_table,
            self.context_lens,
            self.query_start_locs,
        )


def draw(shape: Shape, seed: int = 0) -> Tokens:
    """Random queries, keys and values for each row."""
    rng = np.random.default_rng(seed)

    def rows(counts: list[int], heads: int) -> list[NDArray[np.float32]]:
        return [
            (rng.standard_normal((n, heads, shape.head_dim)) * shape.magnitude).astype(np.float32)
            for n in counts
        ]

    contexts = [context for context, _ in shape.lengths]
    return Tokens(
        queries=rows([queries for _, queries in shape.lengths], shape.q_heads),
        keys=rows(contexts, shape.kv_heads),
        values=rows(contexts, shape.kv_heads),
    )


def lay_out(shape: Shape, tokens: Tokens, seed: int = 0) -> Batch:
    """Put the tokens into pages in random order; all other slots hold NaN."""
    rng = np.random.default_rng(seed + 1)
    counts = [-(-context // shape.page_size) for context, _ in shape.lengths]
    total = sum(counts) + 3
    ids = rng.permutation(total)
    table = np.full((len(counts), max([*counts, 1]) + 1), -1, dtype=np.int32)
    pages = np.full((2, total, shape.kv_heads, shape.page_size, shape.head_dim), np.nan, np.float32)
    for row, count in enumerate(counts):
        table[row, :count], ids = ids[:count], ids[count:]
        positions = np.arange(len(tokens.keys[row]))
        at = table[row, positions // shape.page_size], positions % shape.page_size
        pages[0][at[0], :, at[1]] = tokens.keys[row]
        pages[1][at[0], :, at[1]] = tokens.values[row]
    starts = np.cumsum([0, *(queries for _, queries in shape.lengths)], dtype=np.int32)
    return Batch(
        q=mx.array(np.concatenate(tokens.queries)).astype(shape.q_dtype),
        key_pages=mx.array(pages[0]).astype(shape.page_dtype),
        value_pages=mx.array(pages[1]).astype(shape.page_dtype),
        block_table=mx.array(table),
        context_lens=mx.array(np.array([n for n, _ in shape.lengths], dtype=np.int32)),
        query_start_locs=mx.array(starts),
    )


def make(shape: Shape, seed: int = 0) -> Batch:
    return lay_out(shape, draw(shape, seed), seed)
