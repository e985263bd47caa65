"""The prefix index: an entry is found by its parent and its exact tokens, and by nothing else."""

import pytest

from engine.prefix_index import Parent, PrefixIndex, Root

HASH_MODULUS = 2**61 - 1  # CPython: hash(t) == hash(t + this)
ROOT = Root("")


def test_a_text_is_found_after_its_parent() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.insert(7, [3, 4], 5)
    assert index.get(ROOT, [1, 2]) == 7
    assert index.get(7, [3, 4]) == 5


def test_an_unknown_text_is_not_found() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    assert index.get(ROOT, [1, 3]) is None


def test_page_zero_is_found_like_any_other() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 0)
    assert index.get(ROOT, [1, 2]) == 0
    assert 0 in index


def test_equal_tokens_under_another_parent_are_another_text() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.insert(ROOT, [9, 9], 8)
    index.insert(7, [3, 4], 5)
    assert index.get(8, [3, 4]) is None
    assert index.get(ROOT, [3, 4]) is None


def test_equal_tokens_under_another_salt_are_another_text() -> None:
    index = PrefixIndex()
    index.insert(Root("alice"), [1, 2], 7)
    assert index.get(Root("bob"), [1, 2]) is None
    assert index.get(ROOT, [1, 2]) is None


def test_a_salt_that_looks_like_a_page_id_is_no_page() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.insert(7, [3, 4], 5)
    assert index.get(Root("7"), [3, 4]) is None


def test_tokens_that_read_alike_when_joined_are_another_text() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 23], 7)
    assert index.get(ROOT, [12, 3]) is None


def test_the_order_of_the_tokens_matters() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    assert index.get(ROOT, [2, 1]) is None


def test_tokens_whose_hashes_collide_are_another_text() -> None:
    """Case D06."""
    assert hash((1, 2)) == hash((1 + HASH_MODULUS, 2))
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    assert index.get(ROOT, [1 + HASH_MODULUS, 2]) is None


def test_colliding_texts_live_side_by_side() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.insert(ROOT, [1 + HASH_MODULUS, 2], 8)
    assert index.get(ROOT, [1, 2]) == 7
    assert index.get(ROOT, [1 + HASH_MODULUS, 2]) == 8


def test_parents_whose_hashes_collide_are_different_parents() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.insert(7, [3, 4], 5)
    assert index.get(7 + HASH_MODULUS, [3, 4]) is None


def test_len_counts_the_entries() -> None:
    index = PrefixIndex()
    assert len(index) == 0
    index.insert(ROOT, [1, 2], 7)
    index.insert(7, [3, 4], 5)
    assert len(index) == 2
    index.remove(5)
    assert len(index) == 1


def test_a_removed_entry_is_no_longer_found() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.remove(7)
    assert index.get(ROOT, [1, 2]) is None
    assert 7 not in index


def test_a_removed_page_can_hold_another_text() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.remove(7)
    index.insert(ROOT, [5, 6], 7)
    assert index.get(ROOT, [5, 6]) == 7
    assert index.get(ROOT, [1, 2]) is None


def test_a_page_with_children_is_no_leaf() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    assert index.is_leaf(7)
    index.insert(7, [3, 4], 5)
    assert not index.is_leaf(7)
    assert index.is_leaf(5)


def test_a_page_is_a_leaf_again_when_its_last_child_is_gone() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.insert(7, [3, 4], 5)
    index.insert(7, [5, 6], 6)
    index.remove(5)
    assert not index.is_leaf(7)
    index.remove(6)
    assert index.is_leaf(7)


def test_a_chain_is_removed_from_its_end() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 0)
    index.insert(0, [3, 4], 1)
    index.insert(1, [5, 6], 2)
    for page in (2, 1, 0):
        index.remove(page)
    assert len(index) == 0


def test_removing_a_page_with_children_is_a_bug_of_the_caller() -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    index.insert(7, [3, 4], 5)
    with pytest.raises(AssertionError):
        index.remove(7)


@pytest.mark.parametrize(
    ("parent", "tokens", "page"),
    [(ROOT, [1, 2], 8), (ROOT, [5, 6], 7), (99, [5, 6], 8)],
    ids=["the text is known", "the page holds a text", "the parent is unknown"],
)
def test_an_entry_that_would_break_the_forest_is_a_bug_of_the_caller(
    parent: Parent, tokens: list[int], page: int
) -> None:
    index = PrefixIndex()
    index.insert(ROOT, [1, 2], 7)
    with pytest.raises(AssertionError):
        index.insert(parent, tokens, page)
    assert len(index) == 1
