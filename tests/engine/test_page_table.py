"""The page table: where each token lies, what an append takes, who shares what."""

import pytest

from engine.errors import OutOfPages
from engine.page_pool import PagePool
from engine.page_table import PageCopy, PageTable
from engine.prefix_index import Root
from tests.support.pools import see

B = 4  # page size
ROOT = Root("")


@pytest.fixture
def pool() -> PagePool:
    return PagePool(12, B)


def grown(pool: PagePool, num_tokens: int) -> PageTable:
    """A table of so many computed tokens."""
    table = PageTable(pool)
    if num_tokens:
        table.keep(table.append(num_tokens))
    return table


def registered(pool: PagePool, tokens: list[int]) -> PageTable:
    table = grown(pool, len(tokens))
    table.register_computed(ROOT, tokens)
    return table


def see_table(table: PageTable) -> tuple[tuple[int, ...], int, int]:
    return tuple(table.page_ids), table.context_len, table.num_unused_slots


# --- append ---


def test_a_new_table_is_empty(pool: PagePool) -> None:
    table = PageTable(pool)
    assert repr(table) == "PageTable(page_ids=[], context_len=0)"
    assert table.num_unused_slots == 0


def test_the_repr_names_pages_and_tokens(pool: PagePool) -> None:
    assert repr(grown(pool, 6)) == "PageTable(page_ids=[0, 1], context_len=6)"


@pytest.mark.parametrize(
    ("num_tokens", "num_pages"),
    [(1, 1), (B - 1, 1), (B, 1), (B + 1, 2), (2 * B, 2), (2 * B + 1, 3), (12 * B, 12)],
)
def test_a_table_has_just_the_pages_its_tokens_need(
    pool: PagePool, num_tokens: int, num_pages: int
) -> None:
    table = grown(pool, num_tokens)
    assert len(table.page_ids) == num_pages
    assert table.num_unused_slots == num_pages * B - num_tokens
    assert pool.num_used == num_pages


def test_token_by_token_a_page_is_taken_only_when_a_position_needs_it(pool: PagePool) -> None:
    table = PageTable(pool)
    used = []
    for _ in range(2 * B + 1):
        table.keep(table.append(1))
        used.append(pool.num_used)
    assert used == [1, 1, 1, 1, 2, 2, 2, 2, 3]


@pytest.mark.parametrize("num_tokens", [0, -1])
def test_an_empty_append_is_refused(pool: PagePool, num_tokens: int) -> None:
    table = grown(pool, 3)
    before = see(pool), see_table(table)
    with pytest.raises(ValueError, match=f"at least one token, got {num_tokens}"):
        table.append(num_tokens)
    assert (see(pool), see_table(table)) == before


def test_an_append_that_finds_no_room_changes_nothing(pool: PagePool) -> None:
    table = grown(pool, 3)
    grown(pool, 10 * B)
    before = see(pool), see_table(table)
    with pytest.raises(OutOfPages):
        table.append(1 + 2 * B)
    assert (see(pool), see_table(table)) == before


def test_an_append_that_finds_no_page_for_its_copy_changes_nothing(pool: PagePool) -> None:
    table = grown(pool, 3)
    table.fork()
    grown(pool, 11 * B)
    before = see(pool), see_table(table)
    with pytest.raises(OutOfPages):
        table.append(1)
    assert (see(pool), see_table(table)) == before


def test_an_append_into_the_tail_takes_no_page(pool: PagePool) -> None:
    table = grown(pool, 1)
    grown(pool, 11 * B)
    assert table.append(B - 1).num_new_pages == 0


def test_a_reservation_says_what_it_took(pool: PagePool) -> None:
    reservation = grown(pool, 3).append(1 + B)
    assert (reservation.num_tokens, reservation.num_new_pages) == (1 + B, 1)
    assert reservation.copy is None


# --- how much is needed, how much fits ---


@pytest.mark.parametrize("held", [0, 1, B - 1, B, B + 1])
@pytest.mark.parametrize("more", [1, B - 1, B, B + 1, 3 * B])
def test_pages_needed_is_what_an_append_takes(pool: PagePool, held: int, more: int) -> None:
    table = grown(pool, held)
    needed = table.pages_needed(more)
    used = pool.num_used
    table.append(more)
    assert pool.num_used - used == needed


@pytest.mark.parametrize("more", [1, B - 2, B, 2 * B])
def test_pages_needed_counts_the_copy_of_a_shared_tail(pool: PagePool, more: int) -> None:
    table = grown(pool, B + 2)
    table.fork()
    needed = table.pages_needed(more)
    used = pool.num_used
    table.append(more)
    assert pool.num_used - used == needed


def test_a_shared_full_page_needs_no_copy(pool: PagePool) -> None:
    table = grown(pool, B)
    table.fork()
    assert table.pages_needed(1) == 1
    assert table.append(1).copy is None


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("held", [0, 1, B - 1, B, B + 1])
@pytest.mark.parametrize("num_pages", [0, 1, 2, 3])
def test_tokens_that_fit_is_the_largest_append_that_so_many_pages_allow(
    pool: PagePool, held: int, num_pages: int, is_shared: bool
) -> None:
    table = grown(pool, held)
    if is_shared:
        table.fork()
    fits = table.tokens_that_fit(num_pages)
    assert fits == 0 or table.pages_needed(fits) <= num_pages
    assert table.pages_needed(fits + 1) > num_pages


def test_what_fits_without_a_page_is_the_rest_of_the_tail(pool: PagePool) -> None:
    assert grown(pool, 1).tokens_that_fit(0) == B - 1


def test_nothing_fits_without_a_page_where_the_tail_is_shared(pool: PagePool) -> None:
    table = grown(pool, 1)
    table.fork()
    assert table.tokens_that_fit(0) == 0
    assert table.tokens_that_fit(1) == B - 1


# --- slots ---


def test_position_p_lies_in_slot_p_mod_b_of_page_p_div_b(pool: PagePool) -> None:
    other = grown(pool, 1)
    table = grown(pool, 3)
    other.keep(other.append(B))
    table.keep(table.append(3))
    assert list(table.page_ids) == [1, 3]
    assert table.slots(0, 6) == [4, 5, 6, 7, 12, 13]


def test_slots_start_where_they_are_asked_to(pool: PagePool) -> None:
    table = grown(pool, 2 * B)
    assert table.slots(B - 1, B + 1) == [B - 1, B]
    assert table.slots(3, 3) == []


# --- copy on write ---


def test_a_fork_takes_no_page(pool: PagePool) -> None:
    table = grown(pool, B + 2)
    used = pool.num_used
    child = table.fork()
    assert see_table(child) == see_table(table)
    assert pool.num_used == used
    assert [pool.reference_count(page) for page in table.page_ids] == [2, 2]


def test_a_fork_of_an_empty_table_is_empty(pool: PagePool) -> None:
    assert see_table(PageTable(pool).fork()) == ((), 0, 0)


def test_the_first_write_into_a_shared_tail_copies_that_page_alone(pool: PagePool) -> None:
    parent = grown(pool, B + 2)
    child = parent.fork()
    reservation = child.append(1)
    assert reservation.copy == PageCopy(source=1, target=2)
    assert list(parent.page_ids) == [0, 1]
    assert list(child.page_ids) == [0, 2]


def test_the_copy_and_the_new_pages_come_in_one_append(pool: PagePool) -> None:
    parent = grown(pool, B + 2)
    child = parent.fork()
    reservation = child.append(2 + B)
    assert reservation.num_new_pages == 1
    assert reservation.copy == PageCopy(source=1, target=2)
    assert list(child.page_ids) == [0, 2, 3]


def test_the_source_of_a_copy_is_held_until_the_step_is_kept(pool: PagePool) -> None:
    parent = grown(pool, 2)
    child = parent.fork()
    reservation = child.append(1)
    parent.release()
    assert pool.reference_count(0) == 1
    child.keep(reservation)
    assert pool.reference_count(0) == 0


def test_keeping_an_append_without_a_copy_releases_nothing(pool: PagePool) -> None:
    table = PageTable(pool)
    table.keep(table.append(2))
    assert pool.reference_count(0) == 1


def test_a_page_that_was_copied_once_is_written_in_place(pool: PagePool) -> None:
    child = grown(pool, B + 1).fork()
    child.keep(child.append(1))
    assert child.append(1).copy is None


def test_the_last_sharer_writes_in_place(pool: PagePool) -> None:
    parent = grown(pool, 2)
    child = parent.fork()
    child.keep(child.append(1))
    assert parent.append(1).copy is None


def test_while_a_copy_is_open_the_other_sharer_copies_too(pool: PagePool) -> None:
    """Its page is the source of a copy that has not been made yet."""
    parent = grown(pool, 2)
    child = parent.fork()
    child.append(1)
    assert parent.append(1).copy


def test_an_indexed_page_is_copied_before_it_is_written(pool: PagePool) -> None:
    table = registered(pool, [1, 2, 3, 4])
    table.rewind(1)
    reservation = table.append(1)
    assert reservation.copy == PageCopy(source=0, target=1)
    table.keep(reservation)
    assert pool.is_cached(0)
    assert pool.lookup(ROOT, [1, 2, 3, 4], 0) == [0]


def test_a_fork_at_one_and_a_half_pages_shares_only_the_full_page(pool: PagePool) -> None:
    """Case D04."""
    parent = grown(pool, B + B // 2)
    child = parent.fork()
    for table in (parent, child):
        table.keep(table.append(1))
    assert parent.page_ids[0] == child.page_ids[0]
    assert parent.page_ids[1] != child.page_ids[1]


def test_eight_forks_keep_one_copy_of_the_full_pages(pool: PagePool) -> None:
    tables = [grown(pool, 2 * B + 1)]
    tables += [tables[0].fork() for _ in range(7)]
    for table in tables:
        table.keep(table.append(1))
    assert len({table.page_ids[0] for table in tables}) == 1
    assert len({table.page_ids[1] for table in tables}) == 1
    assert len({table.page_ids[2] for table in tables}) == 8
    assert pool.num_used == 2 + 8


def test_a_freed_parent_leaves_its_child_intact(pool: PagePool) -> None:
    parent = grown(pool, B + 2)
    child = parent.fork()
    pages = list(child.page_ids)
    parent.release()
    assert list(child.page_ids) == pages
    assert [pool.reference_count(page) for page in pages] == [1, 1]


# --- undo ---


@pytest.mark.parametrize("held", [0, 1, B - 1, B, B + 1])
@pytest.mark.parametrize("more", [1, B - 1, B, B + 1, 3 * B])
@pytest.mark.parametrize("is_shared", [False, True])
def test_an_undone_append_never_was(pool: PagePool, held: int, more: int, is_shared: bool) -> None:
    pool.release(pool.allocate(12))
    table = grown(pool, held)
    if is_shared:
        table.fork()
    before = see(pool), see_table(table)
    table.undo(table.append(more))
    assert (see(pool), see_table(table)) == before


def test_undo_gives_back_the_target_and_puts_the_source_in_its_place(pool: PagePool) -> None:
    parent = grown(pool, 2)
    child = parent.fork()
    reservation = child.append(B)
    assert reservation.copy
    child.undo(reservation)
    assert list(child.page_ids) == [0]
    assert pool.reference_count(0) == 2
    assert pool.reference_count(reservation.copy.target) == 0


def test_appends_of_several_tables_are_undone_newest_first(pool: PagePool) -> None:
    pool.release(pool.allocate(12))
    parent = grown(pool, B + 2)
    tables = [parent, parent.fork(), grown(pool, 1)]
    before = see(pool), [see_table(table) for table in tables]
    reservations = [table.append(3) for table in tables]
    for table, reservation in zip(reversed(tables), reversed(reservations), strict=True):
        table.undo(reservation)
    assert (see(pool), [see_table(table) for table in tables]) == before


def test_an_append_after_an_undo_goes_on_as_if_nothing_had_been(pool: PagePool) -> None:
    table = grown(pool, B + 1)
    table.undo(table.append(2 * B))
    table.keep(table.append(1))
    assert see_table(table) == ((0, 1), B + 2, 2)


# --- rewind ---


@pytest.mark.parametrize("num_tokens", [0, 1, B - 1, B, B + 1, 10])
def test_rewind_gives_whole_pages_back_and_shortens_the_last(
    pool: PagePool, num_tokens: int
) -> None:
    """Case D07."""
    table = grown(pool, 10)
    pages = list(table.page_ids)
    table.rewind(num_tokens)
    kept = -(-(10 - num_tokens) // B)
    assert see_table(table) == (tuple(pages[:kept]), 10 - num_tokens, kept * B - 10 + num_tokens)
    assert pool.num_used == kept


@pytest.mark.parametrize("num_tokens", [-1, 11])
def test_rewind_out_of_range_changes_nothing(pool: PagePool, num_tokens: int) -> None:
    table = grown(pool, 10)
    before = see(pool), see_table(table)
    with pytest.raises(ValueError, match=f"cannot rewind {num_tokens} of 10"):
        table.rewind(num_tokens)
    assert (see(pool), see_table(table)) == before


@pytest.mark.parametrize("num_tokens", [0, 1, B - 1, B, B + 1, 10])
def test_rewind_then_append_equals_never_having_had_the_tokens(
    pool: PagePool, num_tokens: int
) -> None:
    table = grown(pool, 10)
    table.rewind(num_tokens)
    table.keep(table.append(3))
    other = grown(PagePool(12, B), 10 - num_tokens)
    other.keep(other.append(3))
    assert see_table(table) == see_table(other)


@pytest.mark.parametrize("num_tokens", [1, B - 1, B, B + 1, 10])
def test_rewind_leaves_shared_pages_to_the_others(pool: PagePool, num_tokens: int) -> None:
    parent = grown(pool, 10)
    child = parent.fork()
    before = see_table(parent)
    child.rewind(num_tokens)
    assert see_table(parent) == before
    assert all(pool.reference_count(page) >= 1 for page in parent.page_ids)


def test_an_append_after_a_rewind_into_a_shared_page_copies_it(pool: PagePool) -> None:
    parent = grown(pool, 2 * B)
    child = parent.fork()
    child.rewind(1)
    assert child.append(1).copy == PageCopy(source=1, target=2)


def test_the_pages_of_a_rewind_are_the_next_to_go_out(pool: PagePool) -> None:
    table = grown(pool, 3 * B)
    table.rewind(2 * B)
    assert pool.allocate(2) == [1, 2]


def test_a_released_table_is_empty(pool: PagePool) -> None:
    table = grown(pool, 10)
    table.release()
    assert see_table(table) == ((), 0, 0)
    assert pool.num_used == 0


def test_releasing_twice_changes_nothing(pool: PagePool) -> None:
    table = grown(pool, 10)
    table.release()
    before = see(pool)
    table.release()
    assert see(pool) == before


def test_a_released_table_can_be_filled_again(pool: PagePool) -> None:
    table = registered(pool, list(range(10)))
    table.release()
    table.keep(table.append(B))
    table.register_computed(ROOT, [50, 51, 52, 53])
    assert pool.lookup(ROOT, [50, 51, 52, 53], 0) == list(table.page_ids)


# --- the prefix index ---


def test_the_full_pages_of_a_computed_table_are_registered(pool: PagePool) -> None:
    table = registered(pool, list(range(10)))
    assert [pool.is_indexed(page) for page in table.page_ids] == [True, True, False]


def test_a_partial_page_is_registered_once_it_is_full(pool: PagePool) -> None:
    table = registered(pool, list(range(10)))
    table.keep(table.append(2))
    table.register_computed(ROOT, list(range(12)))
    assert pool.lookup(ROOT, list(range(12)), 0) == list(table.page_ids)


def test_known_but_uncomputed_tokens_are_not_registered(pool: PagePool) -> None:
    table = grown(pool, B)
    table.register_computed(ROOT, list(range(3 * B)))
    assert pool.lookup(ROOT, list(range(3 * B)), 0) == list(table.page_ids)


def test_nothing_is_found_before_it_is_registered(pool: PagePool) -> None:
    grown(pool, 2 * B)
    assert PageTable(pool).next_cached(ROOT, list(range(2 * B))) == []


def test_an_empty_table_finds_the_head_of_its_text(pool: PagePool) -> None:
    table = registered(pool, list(range(10)))
    assert PageTable(pool).next_cached(ROOT, list(range(10))) == list(table.page_ids[:2])


def test_next_cached_changes_nothing(pool: PagePool) -> None:
    registered(pool, list(range(10)))
    table = PageTable(pool)
    before = see(pool), see_table(table)
    table.next_cached(ROOT, list(range(10)))
    assert (see(pool), see_table(table)) == before


def test_a_table_goes_on_finding_pages_where_it_ends(pool: PagePool) -> None:
    one = registered(pool, list(range(3 * B)))
    other = PageTable(pool)
    other.adopt(one.page_ids[:1])
    assert other.next_cached(ROOT, list(range(3 * B))) == list(one.page_ids[1:])


def test_a_table_with_a_started_tail_finds_nothing(pool: PagePool) -> None:
    registered(pool, list(range(2 * B)))
    table = grown(pool, 1)
    assert table.next_cached(ROOT, list(range(2 * B))) == []


def test_a_table_rewound_into_a_registered_page_finds_nothing_behind_it(pool: PagePool) -> None:
    table = registered(pool, [7] * 2 * B)
    table.rewind(B + 1)
    assert table.next_cached(ROOT, [7] * 2 * B) == []


def test_a_table_with_unregistered_pages_finds_nothing_behind_them(pool: PagePool) -> None:
    registered(pool, list(range(2 * B)))
    table = grown(pool, B)
    assert table.next_cached(ROOT, list(range(2 * B))) == []


def test_pages_can_be_adopted_bit_by_bit(pool: PagePool) -> None:
    one = registered(pool, list(range(3 * B)))
    other = PageTable(pool)
    for page in one.page_ids[:2]:
        other.adopt([page])
    assert see_table(other) == ((0, 1), 2 * B, 0)
    assert other.next_cached(ROOT, list(range(3 * B))) == [2]


def test_adopting_nothing_changes_nothing(pool: PagePool) -> None:
    table = grown(pool, B)
    before = see(pool), see_table(table)
    table.adopt([])
    assert (see(pool), see_table(table)) == before
    assert table.next_cached(ROOT, list(range(2 * B))) == []


def test_adopted_pages_are_held_and_filled(pool: PagePool) -> None:
    one = registered(pool, list(range(10)))
    other = PageTable(pool)
    other.adopt(other.next_cached(ROOT, list(range(10))))
    assert see_table(other) == ((0, 1), 2 * B, 0)
    assert [pool.reference_count(page) for page in one.page_ids] == [2, 2, 1]


def test_adopted_cached_pages_are_used_again(pool: PagePool) -> None:
    registered(pool, list(range(2 * B))).release()
    assert pool.num_cached == 2
    table = PageTable(pool)
    table.adopt(table.next_cached(ROOT, list(range(2 * B))))
    assert (pool.num_cached, pool.num_used) == (0, 2)


def test_tables_that_share_a_prefix_diverge_behind_it(pool: PagePool) -> None:
    registered(pool, [1, 2, 3, 4, 5, 6, 7, 8])
    other = PageTable(pool)
    tokens = [1, 2, 3, 4, 9, 9, 9, 9]
    other.adopt(other.next_cached(ROOT, tokens))
    other.keep(other.append(B))
    other.register_computed(ROOT, tokens)
    assert pool.lookup(ROOT, tokens, 0) == [0, 2]
    assert pool.lookup(ROOT, [1, 2, 3, 4, 5, 6, 7, 8], 0) == [0, 1]


def test_a_text_computed_twice_is_kept_once(pool: PagePool) -> None:
    one = registered(pool, list(range(2 * B + 1)))
    other = registered(pool, list(range(2 * B + 1)))
    assert list(other.page_ids[:2]) == list(one.page_ids[:2])
    assert other.page_ids[2] != one.page_ids[2]
    assert pool.num_used == 4


def test_a_fork_knows_which_of_its_pages_are_registered(pool: PagePool) -> None:
    parent = registered(pool, list(range(2 * B)))
    child = parent.fork()
    assert child.next_cached(ROOT, list(range(3 * B))) == []
    parent.keep(parent.append(B))
    parent.register_computed(ROOT, list(range(3 * B)))
    assert child.next_cached(ROOT, list(range(3 * B))) == [parent.page_ids[2]]


def test_pages_that_were_forked_unregistered_wait_until_one_holder_is_left(pool: PagePool) -> None:
    """Else one fork could hold a registered page without its parent, and evict that under it."""
    known = registered(pool, [1, 2, 3, 4])
    parent = grown(pool, 2 * B)
    child = parent.fork()
    parent.register_computed(ROOT, [1, 2, 3, 4, 5, 6, 7, 8])
    assert not any(pool.is_indexed(page) for page in parent.page_ids)
    child.release()
    parent.register_computed(ROOT, [1, 2, 3, 4, 5, 6, 7, 8])
    assert list(parent.page_ids) == [known.page_ids[0], 2]
    assert pool.lookup(ROOT, [1, 2, 3, 4, 5, 6, 7, 8], 0) == list(parent.page_ids)


def test_a_rewound_table_registers_its_new_text_in_a_page_of_its_own(pool: PagePool) -> None:
    table = registered(pool, [1, 2, 3, 4])
    table.rewind(2)
    table.keep(table.append(2))
    table.register_computed(ROOT, [1, 2, 7, 8])
    assert pool.lookup(ROOT, [1, 2, 3, 4], 0) == [0]
    assert pool.lookup(ROOT, [1, 2, 7, 8], 0) == list(table.page_ids) == [1]


def test_a_table_rewound_to_a_page_border_goes_on_from_its_registered_pages(pool: PagePool) -> None:
    table = registered(pool, list(range(3 * B)))
    table.rewind(B)
    assert table.next_cached(ROOT, list(range(3 * B))) == [2]


def test_another_salt_finds_nothing(pool: PagePool) -> None:
    registered(pool, list(range(2 * B)))
    assert PageTable(pool).next_cached(Root("other"), list(range(2 * B))) == []


def test_a_text_survives_in_the_cache_and_is_evicted_from_its_end(pool: PagePool) -> None:
    registered(pool, list(range(3 * B))).release()
    grown(pool, 10 * B)
    assert PageTable(pool).next_cached(ROOT, list(range(3 * B))) == [0, 1]
