"""What can be seen of a page pool, as one value, so that a test can say: nothing changed."""

from copy import deepcopy
from dataclasses import dataclass

from engine.page_pool import PagePool, PageState


@dataclass(frozen=True, slots=True)
class SeenPage:
    state: PageState
    reference_count: int
    is_indexed: bool
    is_writable: bool


@dataclass(frozen=True, slots=True)
class SeenPool:
    """`next_pages` is what the pool would hand out, in order, if all of it were asked for."""

    counts: tuple[int, int, int, int, int]
    pages: tuple[SeenPage, ...]
    next_pages: tuple[int, ...]


def see(pool: PagePool) -> SeenPool:
    counts = (
        pool.num_free,
        pool.num_used,
        pool.num_cached,
        pool.num_touched,
        pool.num_evictions,
    )
    pages = tuple(
        SeenPage(
            pool.state(page),
            pool.reference_count(page),
            pool.is_indexed(page),
            pool.is_writable(page),
        )
        for page in range(pool.num_pages)
    )
    twin = deepcopy(pool)
    return SeenPool(counts, pages, tuple(twin.allocate(twin.num_available)))
