"""The page pool at one moment, page by page, for people to look at."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.page_pool import PagePool, PageState
from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class PageSnapshot:
    """`owners` are "request_id/index" of the sequences that hold the page, `fill` its tokens."""

    page_id: int
    state: PageState
    reference_count: int
    is_indexed: bool
    fill: int
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """Pages that were never used are only counted."""

    page_size: int
    num_pages: int
    num_untouched: int
    pages: tuple[PageSnapshot, ...]


def take_snapshot(pool: PagePool, sequences: Iterable[Sequence]) -> PoolSnapshot:
    """`sequences` are all that hold pages of `pool`."""
    owners: dict[int, list[str]] = {}
    fill: dict[int, int] = {}
    size = pool.page_size
    for sequence in sequences:
        for i, page in enumerate(sequence.table.page_ids):
            owners.setdefault(page, []).append(_name(sequence))
            tokens = min(size, sequence.table.context_len - i * size)
            fill[page] = max(tokens, fill.get(page, 0))
    pages = (
        PageSnapshot(
            page_id=page,
            state=pool.state(page),
            reference_count=pool.reference_count(page),
            is_indexed=pool.is_indexed(page),
            fill=size if pool.is_cached(page) else fill.get(page, 0),
            owners=tuple(owners.get(page, ())),
        )
        for page in range(pool.num_touched)
    )
    return PoolSnapshot(size, pool.num_pages, pool.num_pages - pool.num_touched, tuple(pages))


def count_unused_tail_slots(sequences: Iterable[Sequence]) -> int:
    """Slots of the sequences' last pages that hold no token, a page shared by several counted once."""
    unused: dict[int, int] = {}
    for sequence in sequences:
        if sequence.table.page_ids:
            tail = sequence.table.page_ids[-1]
            slots = sequence.table.num_unused_slots
            unused[tail] = min(slots, unused.get(tail, slots))
    return sum(unused.values())


def _name(sequence: Sequence) -> str:
    return f"{sequence.request.request_id}/{'+'.join(map(str, sequence.indexes))}"
