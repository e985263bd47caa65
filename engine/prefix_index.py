"""The index of computed full pages: which page holds the K/V of which tokens after which prefix.

An entry is keyed by its parent and its own exact tokens. The parent is the page before it or, for
the first page of a text, the root of a salt. So two entries are the same only where the whole text
up to there is the same, token by token: Python's dict compares keys, a hash alone decides nothing.

    Root("")  --(t0 t1 t2 t3)-->  page 7  --(t4 t5 t6 t7)-->  page 2
                                        \\--(u4 u5 u6 u7)-->  page 9

The index knows neither reference counts nor which pages are live: `PagePool` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Root:
    """Where the texts of one salt begin; different salts never share an entry."""

    salt: str


Parent = int | Root


@dataclass(frozen=True, slots=True)
class _Key:
    parent: Parent
    token_ids: tuple[int, ...]  # page_size of them


class PrefixIndex:
    """Entries form a forest; only leaves can be removed. The mutable state is two dicts and a count."""

    def __init__(self) -> None:
        self._pages: dict[_Key, int] = {}
        self._keys: dict[int, _Key] = {}  # the same entries by page
        self._num_children: dict[int, int] = {}  # of indexed pages that have children

    def __len__(self) -> int:
        return len(self._pages)

    def __contains__(self, page_id: int) -> bool:
        return page_id in self._keys

    def get(self, parent: Parent, token_ids: Sequence[int]) -> int | None:
        """The page that holds `token_ids` right after `parent`, or None."""
        return self._pages.get(_Key(parent, tuple(token_ids)))

    def insert(self, parent: Parent, token_ids: Sequence[int], page_id: int) -> None:
        """Enter a computed full page; neither the page nor the text may be indexed already."""
        key = _Key(parent, tuple(token_ids))
        assert key not in self._pages and page_id not in self._keys
        assert isinstance(parent, Root) or parent in self._keys
        self._pages[key] = page_id
        self._keys[page_id] = key
        if not isinstance(parent, Root):
            self._num_children[parent] = self._num_children.get(parent, 0) + 1

    def is_leaf(self, page_id: int) -> bool:
        return page_id not in self._num_children

    def remove(self, page_id: int) -> None:
        """Forget an indexed leaf, so that its page can hold something else."""
        assert self.is_leaf(page_id)
        key = self._keys.pop(page_id)
        del self._pages[key]
        if not isinstance(key.parent, Root):
            self._drop_child(key.parent)

    def _drop_child(self, parent: int) -> None:
        left = self._num_children[parent] - 1
        if left:
            self._num_children[parent] = left
        else:
            del self._num_children[parent]
