"""Who holds which pages and how far each sequence is, at one moment.

Taking a view only copies: what it shows can be worked out elsewhere, while the engine goes on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.page_pool import PagePool
from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class SequenceView:
    """`page_ids` hold `context_len` tokens, in their order; both include an open step's.

    `indexes` are those of the request's n sequences that this one stands for.
    """

    request_id: str
    indexes: tuple[int, ...]
    is_running: bool  # else it waits
    page_ids: tuple[int, ...]
    context_len: int
    num_prompt_tokens: int
    num_computed_tokens: int
    num_cached_tokens: int  # of the prompt
    num_generated_tokens: int
    max_tokens: int
    num_preemptions: int


@dataclass(frozen=True, slots=True)
class EngineView:
    """`holders` counts who holds each used page; ids from `num_touched` on were never used."""

    page_size: int
    num_pages: int
    num_touched: int
    holders: Mapping[int, int]
    cached: tuple[int, ...]
    sequences: tuple[SequenceView, ...]  # the running, oldest first, then the waiting


def take_view(
    pool: PagePool, running: Iterable[Sequence], waiting: Iterable[Sequence]
) -> EngineView:
    return EngineView(
        page_size=pool.page_size,
        num_pages=pool.num_pages,
        num_touched=pool.num_touched,
        holders=pool.holders_by_page(),
        cached=pool.cached_pages(),
        sequences=(
            *(_view(sequence, is_running=True) for sequence in running),
            *(_view(sequence, is_running=False) for sequence in waiting),
        ),
    )


def _view(sequence: Sequence, *, is_running: bool) -> SequenceView:
    return SequenceView(
        request_id=sequence.request.request_id,
        indexes=tuple(sequence.indexes),
        is_running=is_running,
        page_ids=tuple(sequence.table.page_ids),
        context_len=sequence.table.context_len,
        num_prompt_tokens=sequence.num_prompt_tokens,
        num_computed_tokens=sequence.num_computed_tokens,
        num_cached_tokens=sequence.num_cached_tokens,
        num_generated_tokens=sequence.num_generated_tokens,
        max_tokens=sequence.request.sampling.max_tokens,
        num_preemptions=sequence.num_preemptions,
    )
