"""The page pool: what it hands out, what it takes back, what it keeps for others to find."""

import pytest

from engine.errors import OutOfPages, PageNotHeld
from engine.page_pool import PagePool, PageState
from engine.prefix_index import Root
from tests.support.pools import see

HASH_MODULUS = 2**61 - 1  # CPython: hash(t) == hash(t + this)
ROOT = Root("")


def pool_with_cached_chain(num_pages: int, texts: list[list[int]]) -> tuple[PagePool, list[int]]:
    """A pool whose cache holds one text, given page by page, and the pages of that text."""
    pool = PagePool(num_pages, len(texts[0]))
    pages = pool.allocate(len(texts))
    register_chain(pool, pages, texts)
    pool.release(pages)
    return pool, pages


def register_chain(pool: PagePool, pages: list[int], texts: list[list[int]]) -> None:
    parent: int | Root = ROOT
    for page, text in zip(pages, texts, strict=True):
        parent = pool.register(parent, text, page)


# --- a new pool ---


def test_a_new_pool_is_all_free() -> None:
    pool = PagePool(4, 2)
    assert repr(pool) == "PagePool(free=4, used=0, cached=0)"
    assert pool.num_available == 4
    assert pool.num_touched == 0


@pytest.mark.parametrize(("num_pages", "page_size"), [(0, 1), (1, 0), (-1, 4), (4, -1)])
def test_a_pool_without_pages_or_slots_is_refused(num_pages: int, page_size: int) -> None:
    with pytest.raises(ValueError, match=f"got {num_pages} x {page_size}"):
        PagePool(num_pages, page_size)


def test_the_smallest_pool_has_one_page_of_one_slot() -> None:
    pool = PagePool(1, 1)
    assert pool.allocate(1) == [0]
    assert repr(pool) == "PagePool(free=0, used=1, cached=0)"


def test_the_repr_counts_each_state() -> None:
    pool, _ = pool_with_cached_chain(9, [[1, 2], [3, 4]])
    pool.allocate(3)
    assert repr(pool) == "PagePool(free=4, used=3, cached=2)"


# --- allocate ---


def test_fresh_pages_come_in_ascending_order() -> None:
    pool = PagePool(5, 2)
    assert pool.allocate(2) == [0, 1]
    assert pool.allocate(3) == [2, 3, 4]


def test_touched_pages_are_those_ever_handed_out() -> None:
    pool = PagePool(5, 2)
    pool.release(pool.allocate(3))
    pool.allocate(1)
    assert pool.num_touched == 3


def test_an_allocated_page_has_one_reference() -> None:
    pool = PagePool(4, 2)
    (page,) = pool.allocate(1)
    assert pool.reference_count(page) == 1
    assert pool.state(page) is PageState.USED


def test_returned_pages_go_before_fresh_ones() -> None:
    pool = PagePool(5, 2)
    pool.release(pool.allocate(2))
    assert set(pool.allocate(3)) == {0, 1, 2}
    assert pool.num_touched == 3


def test_the_page_returned_last_goes_out_first() -> None:
    pool = PagePool(5, 2)
    pages = pool.allocate(3)
    pool.release([pages[1]])
    pool.release([pages[0]])
    assert pool.allocate(2) == [pages[0], pages[1]]


def test_fresh_pages_go_before_cached_ones() -> None:
    pool, cached = pool_with_cached_chain(4, [[1, 2], [3, 4]])
    assert pool.allocate(2) == [2, 3]
    assert pool.num_evictions == 0
    assert all(pool.is_cached(page) for page in cached)


def test_one_allocation_takes_returned_then_fresh_then_cached_pages() -> None:
    pool, (cached,) = pool_with_cached_chain(4, [[1, 2]])
    pages = pool.allocate(2)
    pool.release(pages[1:])
    assert pool.allocate(3) == [pages[1], 3, cached]


def test_nothing_can_be_allocated_of_nothing() -> None:
    pool = PagePool(2, 2)
    assert pool.allocate(0) == []
    assert pool.num_free == 2


def test_a_negative_allocation_is_refused() -> None:
    pool = PagePool(2, 2)
    with pytest.raises(ValueError, match="-1 pages"):
        pool.allocate(-1)


def test_the_whole_pool_can_be_allocated() -> None:
    pool = PagePool(3, 2)
    assert pool.allocate(3) == [0, 1, 2]
    assert pool.num_available == 0


def test_out_of_pages_says_how_many_were_needed_and_available() -> None:
    pool = PagePool(3, 2)
    pool.allocate(1)
    with pytest.raises(OutOfPages) as refusal:
        pool.allocate(3)
    assert (refusal.value.needed, refusal.value.available) == (3, 2)
    assert str(refusal.value) == "3 pages needed, 2 available"


def test_a_refused_allocation_changes_nothing() -> None:
    pool, _ = pool_with_cached_chain(5, [[1, 2], [3, 4]])
    pages = pool.allocate(2)
    pool.release(pages[:1])
    before = see(pool)
    with pytest.raises(OutOfPages):
        pool.allocate(5)
    assert see(pool) == before


# --- retain and release ---


def test_a_retained_page_has_one_reference_more() -> None:
    pool = PagePool(2, 2)
    pages = pool.allocate(1)
    pool.retain(pages)
    assert pool.reference_count(pages[0]) == 2


def test_a_page_named_twice_is_retained_twice() -> None:
    pool = PagePool(2, 2)
    (page,) = pool.allocate(1)
    pool.retain([page, page])
    assert pool.reference_count(page) == 3


def test_a_shared_page_is_free_only_after_its_last_holder() -> None:
    pool = PagePool(2, 2)
    pages = pool.allocate(1)
    pool.retain(pages)
    pool.release(pages)
    assert pool.state(pages[0]) is PageState.USED
    pool.release(pages)
    assert pool.state(pages[0]) is PageState.FREE


def test_a_page_named_twice_is_released_twice() -> None:
    pool = PagePool(2, 2)
    (page,) = pool.allocate(1)
    pool.retain([page])
    pool.release([page, page])
    assert repr(pool) == "PagePool(free=2, used=0, cached=0)"


@pytest.mark.parametrize("page", [1, 2, -1, 99], ids=["returned", "fresh", "negative", "beyond"])
def test_a_page_nobody_holds_can_be_neither_retained_nor_released(page: int) -> None:
    pool = PagePool(3, 2)
    held, returned = pool.allocate(2)
    pool.release([returned])
    before = see(pool)
    with pytest.raises(PageNotHeld, match=f"page {page} "):
        pool.retain([held, page])
    with pytest.raises(PageNotHeld, match=f"page {page} "):
        pool.release([held, page])
    assert see(pool) == before


def test_a_cached_page_cannot_be_released() -> None:
    pool, pages = pool_with_cached_chain(3, [[1, 2]])
    before = see(pool)
    with pytest.raises(PageNotHeld):
        pool.release(pages)
    assert see(pool) == before


def test_a_double_release_in_one_call_changes_nothing() -> None:
    pool = PagePool(3, 2)
    one, other = pool.allocate(2)
    before = see(pool)
    with pytest.raises(PageNotHeld):
        pool.release([one, other, one])
    assert see(pool) == before


def test_a_second_release_changes_nothing() -> None:
    pool = PagePool(3, 2)
    pages = pool.allocate(2)
    pool.release(pages)
    before = see(pool)
    with pytest.raises(PageNotHeld):
        pool.release(pages)
    assert see(pool) == before


def test_releasing_everything_restores_every_page() -> None:
    pool = PagePool(6, 2)
    pages = pool.allocate(6)
    pool.retain(pages[:3])
    pool.release(pages)
    pool.release(pages[:3])
    assert repr(pool) == "PagePool(free=6, used=0, cached=0)"
    assert sorted(pool.allocate(6)) == [0, 1, 2, 3, 4, 5]


# --- who may write ---


def test_the_sole_holder_may_write() -> None:
    pool = PagePool(2, 2)
    (page,) = pool.allocate(1)
    assert pool.is_writable(page)


def test_a_shared_page_may_not_be_written() -> None:
    pool = PagePool(2, 2)
    pages = pool.allocate(1)
    pool.retain(pages)
    assert not pool.is_writable(pages[0])


def test_an_indexed_page_may_not_be_written() -> None:
    pool = PagePool(2, 2)
    (page,) = pool.allocate(1)
    pool.register(ROOT, [1, 2], page)
    assert not pool.is_writable(page)


def test_a_free_page_may_not_be_written() -> None:
    assert not PagePool(2, 2).is_writable(0)


# --- the prefix index ---


def test_a_registered_page_stays_cached_when_its_holder_is_gone() -> None:
    pool = PagePool(2, 2)
    (page,) = pool.allocate(1)
    assert pool.register(ROOT, [1, 2], page) == page
    assert pool.state(page) is PageState.USED
    pool.release([page])
    assert pool.state(page) is PageState.CACHED
    assert repr(pool) == "PagePool(free=1, used=0, cached=1)"


def test_a_cached_page_is_available() -> None:
    pool, _ = pool_with_cached_chain(2, [[1, 2]])
    assert (pool.num_free, pool.num_available) == (1, 2)


def test_a_retained_cached_page_is_used_again() -> None:
    pool, pages = pool_with_cached_chain(2, [[1, 2]])
    pool.retain(pages)
    assert pool.state(pages[0]) is PageState.USED
    assert pool.reference_count(pages[0]) == 1
    assert pool.is_indexed(pages[0])


def test_lookup_follows_a_text_page_by_page() -> None:
    pool, pages = pool_with_cached_chain(4, [[1, 2], [3, 4], [5, 6]])
    assert pool.lookup(ROOT, [1, 2, 3, 4, 5, 6], 0) == pages


def test_lookup_stops_where_the_text_differs() -> None:
    pool, pages = pool_with_cached_chain(4, [[1, 2], [3, 4], [5, 6]])
    assert pool.lookup(ROOT, [1, 2, 3, 9, 5, 6], 0) == pages[:1]


def test_lookup_finds_no_half_page() -> None:
    pool, pages = pool_with_cached_chain(4, [[1, 2], [3, 4]])
    assert pool.lookup(ROOT, [1, 2, 3], 0) == pages[:1]
    assert pool.lookup(ROOT, [1], 0) == []
    assert pool.lookup(ROOT, [], 0) == []


def test_lookup_goes_on_from_a_start_after_its_parent() -> None:
    pool, pages = pool_with_cached_chain(4, [[1, 2], [3, 4], [5, 6]])
    assert pool.lookup(pages[0], [1, 2, 3, 4, 5, 6], 2) == pages[1:]


def test_lookup_changes_nothing() -> None:
    pool, _ = pool_with_cached_chain(4, [[1, 2], [3, 4]])
    before = see(pool)
    pool.lookup(ROOT, [1, 2, 3, 4], 0)
    assert see(pool) == before


def test_lookup_finds_nothing_under_another_salt() -> None:
    pool, _ = pool_with_cached_chain(4, [[1, 2]])
    assert pool.lookup(Root("other"), [1, 2], 0) == []


@pytest.mark.parametrize(
    "text", [[1 + HASH_MODULUS, 23], [12, 3], [23, 1]], ids=["hash", "joined", "order"]
)
def test_a_text_that_only_resembles_a_cached_one_is_not_found(text: list[int]) -> None:
    pool, _ = pool_with_cached_chain(4, [[1, 23]])
    assert pool.lookup(ROOT, text, 0) == []


def test_a_second_page_of_the_same_text_is_given_back() -> None:
    pool = PagePool(4, 2)
    first, second = pool.allocate(2)
    pool.register(ROOT, [1, 2], first)
    assert pool.register(ROOT, [1, 2], second) == first
    assert pool.reference_count(first) == 2
    assert pool.state(second) is PageState.FREE


def test_registering_revives_the_cached_page_of_the_same_text() -> None:
    pool, (known,) = pool_with_cached_chain(4, [[1, 2]])
    (page,) = pool.allocate(1)
    assert pool.register(ROOT, [1, 2], page) == known
    assert pool.state(known) is PageState.USED
    assert pool.state(page) is PageState.FREE


def test_registering_a_page_again_changes_nothing() -> None:
    pool = PagePool(4, 2)
    (page,) = pool.allocate(1)
    pool.register(ROOT, [1, 2], page)
    before = see(pool)
    assert pool.register(ROOT, [1, 2], page) == page
    assert see(pool) == before


@pytest.mark.parametrize("text", [[1], [1, 2, 3], []])
def test_only_a_full_page_can_be_registered(text: list[int]) -> None:
    pool = PagePool(4, 2)
    (page,) = pool.allocate(1)
    before = see(pool)
    with pytest.raises(PageNotHeld, match=f"page {page} is no full page"):
        pool.register(ROOT, text, page)
    assert see(pool) == before


def test_a_page_nobody_holds_cannot_be_registered() -> None:
    pool = PagePool(4, 2)
    with pytest.raises(PageNotHeld, match="page 3 "):
        pool.register(ROOT, [1, 2], 3)
    assert not pool.is_indexed(3)


# --- eviction ---


def test_the_least_recently_used_page_is_evicted_first() -> None:
    pool = PagePool(3, 2)
    pages = pool.allocate(3)
    for page in pages:
        pool.register(ROOT, [page, page], page)
    for page in (pages[1], pages[2], pages[0]):
        pool.release([page])
    assert pool.allocate(3) == [pages[1], pages[2], pages[0]]


def test_a_page_that_was_used_again_is_evicted_later() -> None:
    pool = PagePool(2, 2)
    one, other = pool.allocate(2)
    pool.register(ROOT, [1, 1], one)
    pool.register(ROOT, [2, 2], other)
    pool.release([one])
    pool.release([other])
    pool.retain([one])
    pool.release([one])
    assert pool.allocate(1) == [other]


def test_a_text_is_evicted_from_its_end() -> None:
    pool, pages = pool_with_cached_chain(3, [[1, 2], [3, 4], [5, 6]])
    for left in (2, 1, 0):
        pool.allocate(1)
        assert pool.lookup(ROOT, [1, 2, 3, 4, 5, 6], 0) == pages[:left]


def test_evictions_are_counted() -> None:
    pool, _ = pool_with_cached_chain(3, [[1, 2], [3, 4]])
    pool.allocate(1)
    assert pool.num_evictions == 0
    pool.allocate(2)
    assert pool.num_evictions == 2


def test_an_evicted_page_is_not_found_under_its_old_text() -> None:
    pool, (page,) = pool_with_cached_chain(1, [[1, 2]])
    assert pool.allocate(1) == [page]
    assert pool.lookup(ROOT, [1, 2], 0) == []
    assert not pool.is_indexed(page)


def test_an_evicted_and_refilled_page_is_found_under_its_new_text_only() -> None:
    """Case D03."""
    pool, old = pool_with_cached_chain(4, [[1, 2], [3, 4]])
    new = pool.allocate(4)
    register_chain(pool, new, [[5, 6], [7, 8], [9, 10], [11, 12]])
    pool.release(new)
    assert set(old) < set(new)
    assert pool.lookup(ROOT, [1, 2, 3, 4], 0) == []
    assert pool.lookup(ROOT, [5, 6, 7, 8, 9, 10, 11, 12], 0) == new


def test_a_page_that_takes_an_evicted_parents_id_inherits_no_children() -> None:
    pool, (parent, child) = pool_with_cached_chain(2, [[1, 2], [3, 4]])
    pages = pool.allocate(2)
    assert set(pages) == {parent, child}
    pool.register(ROOT, [5, 6], parent)
    assert pool.lookup(ROOT, [5, 6, 3, 4], 0) == [parent]


def test_a_used_page_is_never_evicted() -> None:
    pool, pages = pool_with_cached_chain(3, [[1, 2], [3, 4]])
    pool.retain(pages[:1])
    pool.allocate(2)
    with pytest.raises(OutOfPages):
        pool.allocate(1)
    assert pool.lookup(ROOT, [1, 2, 3, 4], 0) == pages[:1]


def test_a_pool_tells_who_holds_what_and_which_pages_it_keeps_in_their_order() -> None:
    pool, (first, second) = pool_with_cached_chain(4, [[1, 2], [3, 4]])
    (held,) = pool.allocate(1)
    pool.retain([held])
    assert pool.holders_by_page() == {held: 2}
    assert sorted(pool.cached_pages()) == sorted([first, second])
    evicted_first = pool.cached_pages()[0]
    pool.allocate(2)  # the free page, and the one that was used longest ago
    assert pool.cached_pages() == tuple({first, second} - {evicted_first})


# --- the law ---


def test_the_check_passes_on_a_new_pool() -> None:
    PagePool(3, 2).check([])


def test_the_check_passes_when_every_page_is_cached() -> None:
    pool, _ = pool_with_cached_chain(2, [[1, 2], [3, 4]])
    pool.check([])


def test_the_check_passes_when_the_holders_are_right() -> None:
    pool, cached = pool_with_cached_chain(6, [[1, 2], [3, 4]])
    pages = pool.allocate(3)
    pool.release(pages[1:2])
    pool.retain(cached)
    pool.retain(cached)
    pool.check([*cached, *cached, pages[0], pages[2]])


@pytest.mark.parametrize("holders", [[], [0, 0], [1], [0, 1]])
def test_the_check_fails_when_references_differ_from_holders(holders: list[int]) -> None:
    pool = PagePool(3, 2)
    pool.allocate(1)
    with pytest.raises(AssertionError, match="references differ from holders"):
        pool.check(holders)
