"""The allocator of page ids: free, used and cached pages, reference counts, eviction.

The law: free + used + cached == num_pages, and a page is in exactly one of the three states.

    free    nobody holds it and its content means nothing
    used    its reference count, the number of holders, is 1 or more
    cached  nobody holds it, but the prefix index still finds it

An id names the same place in every layer. The pool knows nothing of the memory behind the ids, but
it hands out new ids in ascending order, so `num_touched` tells how many must have memory.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from enum import StrEnum

from engine.errors import OutOfPages, PageNotHeld
from engine.prefix_index import Parent, PrefixIndex


class PageState(StrEnum):
    FREE = "free"
    USED = "used"
    CACHED = "cached"


class PagePool:
    """The page ids 0 .. num_pages-1 of one model. Every operation succeeds whole or changes nothing."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        if num_pages < 1 or page_size < 1:
            raise ValueError(f"a pool needs pages and slots, got {num_pages} x {page_size}")
        self.num_pages = num_pages
        self.page_size = page_size
        self.num_evictions = 0
        self._num_touched = 0  # ids at or above this were never handed out
        self._returned: list[int] = []  # free ids below it, last returned first out
        self._references: dict[int, int] = {}  # used pages
        self._cached: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self._index = PrefixIndex()

    def __repr__(self) -> str:
        return f"PagePool(free={self.num_free}, used={self.num_used}, cached={self.num_cached})"

    @property
    def num_free(self) -> int:
        return self.num_pages - self._num_touched + len(self._returned)

    @property
    def num_used(self) -> int:
        return len(self._references)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_available(self) -> int:
        """Pages that `allocate` can give: the free ones, and the cached ones by eviction."""
        return self.num_free + self.num_cached

    @property
    def num_touched(self) -> int:
        """Every id ever handed out is below this."""
        return self._num_touched

    def reference_count(self, page_id: int) -> int:
        return self._references.get(page_id, 0)

    def is_cached(self, page_id: int) -> bool:
        return page_id in self._cached

    def state(self, page_id: int) -> PageState:
        if page_id in self._references:
            return PageState.USED
        return PageState.CACHED if page_id in self._cached else PageState.FREE

    def is_indexed(self, page_id: int) -> bool:
        return page_id in self._index

    def is_writable(self, page_id: int) -> bool:
        """True for the sole holder of a page that the prefix index does not promise to others."""
        return self.reference_count(page_id) == 1 and page_id not in self._index

    def holders_by_page(self) -> dict[int, int]:
        """How many hold each used page; a copy."""
        return dict(self._references)

    def cached_pages(self) -> tuple[int, ...]:
        """The cached pages, least recently used first."""
        return tuple(self._cached)

    def allocate(self, count: int) -> list[int]:
        """Take `count` pages, each with one reference.

        Returned pages go first, then fresh ones, then cached ones by eviction.
        Raises ValueError for a negative count and OutOfPages, in both cases having changed nothing.
        """
        if count < 0:
            raise ValueError(f"cannot allocate {count} pages")
        if count > self.num_available:
            raise OutOfPages(count, self.num_available)
        pages = [self._take_one() for _ in range(count)]
        self._references.update((page, 1) for page in pages)
        return pages

    def retain(self, page_ids: Sequence[int]) -> None:
        """Add a reference to each page, used or cached. Raises PageNotHeld, having changed nothing."""
        for page in page_ids:
            if page not in self._references and page not in self._cached:
                raise PageNotHeld(f"page {page} is free: nobody can share it")
        for page in page_ids:
            self._cached.pop(page, None)
            self._references[page] = self.reference_count(page) + 1

    def release(self, page_ids: Sequence[int]) -> None:
        """Give back one reference of each page; `page_ids` stand in the order of a text.

        A page nobody holds any more becomes cached if it is indexed, else free. The last pages go
        first, so a cached page is always older than the cached page before it in its text.
        Raises PageNotHeld for more references than there are, having changed nothing.
        """
        for page, count in Counter(page_ids).items():
            if count > self.reference_count(page):
                raise PageNotHeld(f"page {page} is released more often than it is held")
        for page in reversed(page_ids):
            self._release_one(page)

    def lookup(self, parent: Parent, token_ids: Sequence[int], start: int) -> list[int]:
        """The indexed pages that hold `token_ids[start:]` page by page after `parent`; changes nothing."""
        found: list[int] = []
        for first in range(start, len(token_ids) - self.page_size + 1, self.page_size):
            page = self._index.get(parent, token_ids[first : first + self.page_size])
            if page is None:
                break
            found.append(page)
            parent = page
        return found

    def register(self, parent: Parent, token_ids: Sequence[int], page_id: int) -> int:
        """Make a held, computed, full page findable; returns the page that stands for this text.

        Where the same text was registered before, that page is returned with a reference for the
        caller, and the caller's own page is given back: two pages never hold the same text.

        A new text comes with a page that nobody shares yet. So whoever holds a registered page
        holds its parent too, and a cached page never has a child in use.
        """
        if self.reference_count(page_id) == 0 or len(token_ids) != self.page_size:
            raise PageNotHeld(f"page {page_id} is no full page of a holder")
        known = self._index.get(parent, token_ids)
        if known is None:
            assert self.reference_count(page_id) == 1
            self._index.insert(parent, token_ids, page_id)
            return page_id
        if known != page_id:
            self.retain([known])
            self.release([page_id])
        return known

    def check(self, holders: Iterable[int]) -> None:
        """Raise AssertionError unless the law holds; `holders` names each page once for each holder."""
        states = [*self._returned, *self._references, *self._cached]
        assert len(states) == len(set(states)) == self._num_touched, (
            "a page is in two states or in none"
        )
        assert self.num_free + self.num_used + self.num_cached == self.num_pages
        assert Counter(holders) == Counter(self._references), "references differ from holders"
        assert all(page in self._index for page in self._cached), "a cached page cannot be found"
        assert not any(page in self._index for page in self._returned), "a free page can be found"

    def _take_one(self) -> int:
        if self._returned:
            return self._returned.pop()
        if self._num_touched < self.num_pages:
            self._num_touched += 1
            return self._num_touched - 1
        page, _ = self._cached.popitem(last=False)
        self._index.remove(page)
        self.num_evictions += 1
        return page

    def _release_one(self, page: int) -> None:
        left = self._references[page] - 1
        if left:
            self._references[page] = left
            return
        del self._references[page]
        if page in self._index:
            self._cached[page] = None
        else:
            self._returned.append(page)
