"""The page pool as runs of pages that look alike. Pure; its size does not grow with the pool."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice

from engine.engine_view import EngineView
from server.api.schemas.snapshot import PageRun, PoolPicture

MAX_RUNS = 2000  # at most some 120 KB of JSON
MAX_OWNERS = 4  # named for one run


@dataclass(frozen=True, slots=True)
class _Pages:
    """The touched pages, by id."""

    holders: Sequence[int]
    cached: Sequence[int]  # 1 or 0
    fill: Sequence[int]  # tokens
    owners: Sequence[tuple[int, ...]]


def draw_pool(view: EngineView, owners: Sequence[str], max_runs: int = MAX_RUNS) -> PoolPicture:
    """`owners` names each of the view's sequences, in their order. Exact where that takes at most
    `max_runs` runs, else that many stretches of equal length."""
    pages = _pages(view)
    exact = _fits(pages, max_runs)
    length = -(-view.num_touched // max_runs)
    runs = list(_exact_runs(pages) if exact else _stretches(pages, length))
    if untouched := view.num_pages - view.num_touched:
        runs.append(PageRun(free=untouched))
    return PoolPicture(
        page_size=view.page_size,
        num_pages=view.num_pages,
        exact=exact,
        owners=tuple(owners),
        runs=tuple(runs),
    )


def _pages(view: EngineView) -> _Pages:
    size, count = view.page_size, view.num_touched
    holders, fill = [0] * count, [0] * count
    cached = bytearray(count)
    owners: list[tuple[int, ...]] = [()] * count
    for page, number in view.holders.items():
        holders[page] = number
    for page in view.cached:
        cached[page] = 1
        fill[page] = size
    for place, sequence in enumerate(view.sequences):
        own = (place,)
        for page in sequence.page_ids:
            others = owners[page]
            if not others:
                owners[page] = own
            elif len(others) < MAX_OWNERS:
                owners[page] = others + own
        for page in sequence.page_ids[:-1]:
            fill[page] = size
        if sequence.page_ids:
            tail = sequence.page_ids[-1]
            tokens = sequence.context_len - (len(sequence.page_ids) - 1) * size
            fill[tail] = max(fill[tail], tokens)
    return _Pages(holders, cached, fill, owners)


def _looks(pages: _Pages) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
    return zip(pages.holders, pages.cached, pages.fill, pages.owners, strict=True)


def _fits(pages: _Pages, max_runs: int) -> bool:
    runs = groupby(_looks(pages))
    return sum(1 for _ in islice(runs, max_runs + 1)) <= max_runs


def _exact_runs(pages: _Pages) -> Iterator[PageRun]:
    for (holders, cached, fill, owners), alike in groupby(_looks(pages)):
        count = sum(1 for _ in alike)
        yield PageRun(
            free=0 if holders or cached else count,
            used=count if holders == 1 else 0,
            shared=count if holders > 1 else 0,
            cached=count if cached else 0,
            tokens=count * fill,
            holders=holders,
            owners=owners,
        )


def _stretches(pages: _Pages, length: int) -> Iterator[PageRun]:
    for start in range(0, len(pages.holders), length):
        part = slice(start, start + length)
        holders = pages.holders[part]
        cached = sum(pages.cached[part])
        used = holders.count(1)
        unheld = holders.count(0)
        named = dict.fromkeys(chain.from_iterable(pages.owners[part]))
        yield PageRun(
            free=unheld - cached,
            used=used,
            shared=len(holders) - unheld - used,
            cached=cached,
            tokens=sum(pages.fill[part]),
            holders=max(holders),
            owners=tuple(islice(named, MAX_OWNERS)),
        )
