"""A StepBatch as the arrays that the model and the kernels read."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import mlx.core as mx

from engine.step_batch import Row, StepBatch

UNMAPPED = -1  # pads block_table; the kernels never follow it


@dataclass(frozen=True, slots=True)
class StepArrays:
    """All int32. T tokens in B rows; `query_start_locs` holds the T-offsets of the rows, and T."""

    token_ids: mx.array  # [T]
    positions: mx.array  # [T]
    slot_mapping: mx.array  # [T]
    block_table: mx.array  # [B, max_pages]
    context_lens: mx.array  # [B]
    query_start_locs: mx.array  # [B + 1]


def step_arrays(batch: StepBatch) -> StepArrays:
    rows = batch.rows
    max_pages = max(len(row.page_ids) for row in rows)
    table = [_padded(row, max_pages) for row in rows]
    starts = accumulate((len(row.token_ids) for row in rows), initial=0)
    return StepArrays(
        token_ids=_int32(token for row in rows for token in row.token_ids),
        positions=_int32(p for row in rows for p in range(row.start, row.context_len)),
        slot_mapping=_int32(slot for row in rows for slot in row.slots),
        block_table=mx.array(table, mx.int32),
        context_lens=_int32(row.context_len for row in rows),
        query_start_locs=_int32(starts),
    )


def _padded(row: Row, max_pages: int) -> list[int]:
    return [*row.page_ids, *[UNMAPPED] * (max_pages - len(row.page_ids))]


def _int32(values: Iterable[int]) -> mx.array:
    return mx.array(list(values), mx.int32)
