"""The pool as people see it: each page's state, holders and fill, and the unused tails."""

from engine.page_pool import PagePool, PageState
from engine.page_table import PageTable
from engine.pool_snapshot import PageSnapshot, count_unused_tail_slots, take_snapshot
from engine.sequence import Sequence
from tests.support.stepper import Stepper, make_request

B = 4  # page size


def sequence_of(pool: PagePool, name: str, num_tokens: int, n: int = 1) -> Sequence:
    table = PageTable(pool)
    if num_tokens:
        table.keep(table.append(num_tokens))
    return Sequence.begin(make_request(name, [1] * max(num_tokens, 1), n=n), 0, table)


def test_a_new_pool_has_no_page_to_show() -> None:
    snapshot = take_snapshot(PagePool(8, B), [])
    assert (snapshot.page_size, snapshot.num_pages, snapshot.num_untouched) == (B, 8, 8)
    assert snapshot.pages == ()


def test_each_touched_page_is_shown_with_its_holder_and_fill() -> None:
    pool = PagePool(8, B)
    snapshot = take_snapshot(pool, [sequence_of(pool, "a", 6)])
    assert snapshot.num_untouched == 6
    assert snapshot.pages == (
        PageSnapshot(0, PageState.USED, 1, False, B, ("a/0",)),
        PageSnapshot(1, PageState.USED, 1, False, 2, ("a/0",)),
    )


def test_a_sequence_that_stands_for_several_answers_names_them_all() -> None:
    pool = PagePool(8, B)
    (page,) = take_snapshot(pool, [sequence_of(pool, "a", 3, n=3)]).pages
    assert page.owners == ("a/0+1+2",)


def test_a_shared_page_names_every_holder() -> None:
    pool = PagePool(8, B)
    parent = sequence_of(pool, "a", 3, n=2)
    child = parent.fork(1)
    (page,) = take_snapshot(pool, [parent, child]).pages
    assert (page.reference_count, page.owners) == (2, ("a/0", "a/1"))


def test_the_fill_of_a_shared_page_is_that_of_its_fullest_holder() -> None:
    pool = PagePool(8, B)
    parent = sequence_of(pool, "a", 3, n=2)
    child = parent.fork(1)
    child.table.rewind(2)
    for sequences in ([parent, child], [child, parent]):
        (page,) = take_snapshot(pool, sequences).pages
        assert page.fill == 3


def test_a_returned_page_is_free_and_empty() -> None:
    pool = PagePool(8, B)
    sequence_of(pool, "a", 3).table.release()
    assert take_snapshot(pool, []).pages == (PageSnapshot(0, PageState.FREE, 0, False, 0, ()),)


def test_a_cached_page_is_full_and_nobodys() -> None:
    stepper = Stepper(num_pages=8, page_size=B)
    stepper.add(make_request("a", [1] * B, 1))
    stepper.run()
    assert take_snapshot(stepper.pool, []).pages == (
        PageSnapshot(0, PageState.CACHED, 0, True, B, ()),
    )


def test_an_indexed_page_in_use_is_shown_as_both() -> None:
    stepper = Stepper(num_pages=8, page_size=B)
    stepper.add(make_request("a", [1] * B, 2))
    stepper.step()
    (page,) = take_snapshot(stepper.pool, stepper.scheduler.running).pages
    assert (page.state, page.is_indexed) == (PageState.USED, True)


def test_the_unused_tails_are_those_of_each_sequences_last_page() -> None:
    pool = PagePool(8, B)
    sequences = [sequence_of(pool, name, length) for name, length in (("a", 1), ("b", 6), ("c", B))]
    assert count_unused_tail_slots(sequences) == 3 + 2 + 0


def test_a_sequence_without_pages_has_no_tail() -> None:
    assert count_unused_tail_slots([sequence_of(PagePool(8, B), "a", 0)]) == 0


def test_the_tail_of_a_shared_page_is_counted_once_from_its_fullest_holder() -> None:
    pool = PagePool(8, B)
    parent = sequence_of(pool, "a", 3, n=2)
    child = parent.fork(1)
    child.table.rewind(2)
    assert count_unused_tail_slots([parent, child]) == 1
    assert count_unused_tail_slots([child, parent]) == 1


def test_tails_behind_a_shared_head_are_counted_each() -> None:
    pool = PagePool(8, B)
    parent = sequence_of(pool, "a", B, n=2)
    child = parent.fork(1)
    parent.table.append(1)
    child.table.append(2)
    assert count_unused_tail_slots([parent, child]) == 3 + 2
