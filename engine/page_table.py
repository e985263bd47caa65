"""One sequence's pages in order, and how many tokens they hold.

Position p lives in slot p % page_size of page_ids[p // page_size]:

    page_size 4, context_len 10, page_ids [12, 5, 3]

    page 12: t0 t1 t2 t3    page 5: t4 t5 t6 t7    page 3: t8 t9 __ __
                                                                ^ the tail: 2 unused slots

Full pages may be shared with other tables. A page that is shared, or promised to others by the
prefix index, is never written: `append` puts a copy in its place and says so in its Reservation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.page_pool import PagePool
from engine.prefix_index import Parent


@dataclass(frozen=True, slots=True)
class PageCopy:
    """The K/V of page `source` must be copied to page `target`, in every layer, before the step writes."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one `append` took. The source of a copy stays held until the reservation is kept or undone."""

    num_tokens: int
    num_new_pages: int
    copy: PageCopy | None


class PageTable:
    """The mutable state is `page_ids`, `context_len` and how many leading pages are registered."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._page_ids: list[int] = []
        self._context_len = 0
        self._num_registered = 0

    def __repr__(self) -> str:
        return f"PageTable(page_ids={self._page_ids}, context_len={self._context_len})"

    @property
    def page_ids(self) -> Sequence[int]:
        return self._page_ids

    @property
    def context_len(self) -> int:
        """Tokens held, those of an open reservation included."""
        return self._context_len

    @property
    def num_unused_slots(self) -> int:
        return len(self._page_ids) * self._pool.page_size - self._context_len

    def pages_needed(self, num_tokens: int) -> int:
        """Pages that `append(num_tokens)` would take from the pool, the copy of a shared tail included."""
        new = self._pages_for(self._context_len + num_tokens) - len(self._page_ids)
        return new + self._tail_needs_copy()

    def tokens_that_fit(self, num_pages: int) -> int:
        """The largest append that takes at most `num_pages` pages."""
        left = num_pages - self._tail_needs_copy()
        if left < 0:
            return 0
        return self.num_unused_slots + left * self._pool.page_size

    def append(self, num_tokens: int) -> Reservation:
        """Make room for `num_tokens` more tokens.

        Raises ValueError for less than one token and OutOfPages, in both cases having changed nothing.
        """
        if num_tokens < 1:
            raise ValueError(f"an append takes at least one token, got {num_tokens}")
        copies = self._tail_needs_copy()
        new = self._pool.allocate(self.pages_needed(num_tokens))
        copy = None
        if copies:
            copy = PageCopy(source=self._page_ids[-1], target=new.pop(0))
            self._page_ids[-1] = copy.target
        self._page_ids += new
        self._context_len += num_tokens
        return Reservation(num_tokens, len(new), copy)

    def keep(self, reservation: Reservation) -> None:
        """The step has written the reserved slots: let go of the source of its copy."""
        if reservation.copy:
            self._pool.release([reservation.copy.source])

    def undo(self, reservation: Reservation) -> None:
        """Give back exactly what `reservation`, the newest and not yet kept, took."""
        self._drop_pages(reservation.num_new_pages)
        if reservation.copy:
            assert self._page_ids[-1] == reservation.copy.target
            self._pool.release([reservation.copy.target])
            self._page_ids[-1] = reservation.copy.source
        self._context_len -= reservation.num_tokens

    def slots(self, start: int, stop: int) -> list[int]:
        """The flat slots, page_id * page_size + offset, of positions start .. stop-1."""
        size = self._pool.page_size
        return [self._page_ids[p // size] * size + p % size for p in range(start, stop)]

    def fork(self) -> "PageTable":
        """Another table of the same tokens that shares every page."""
        child = PageTable(self._pool)
        self._pool.retain(self._page_ids)
        child._page_ids = list(self._page_ids)
        child._context_len = self._context_len
        child._num_registered = self._num_registered
        return child

    def rewind(self, num_tokens: int) -> None:
        """Forget the newest `num_tokens`: whole pages go back at once, shared pages stay as they are.

        Raises ValueError outside 0 .. context_len, having changed nothing.
        """
        if not 0 <= num_tokens <= self._context_len:
            raise ValueError(f"cannot rewind {num_tokens} of {self._context_len} tokens")
        kept = self._context_len - num_tokens
        self._drop_pages(len(self._page_ids) - self._pages_for(kept))
        self._context_len = kept
        self._num_registered = min(self._num_registered, kept // self._pool.page_size)

    def release(self) -> None:
        """Give every page back; the table is empty afterwards."""
        self.rewind(self._context_len)

    def next_cached(self, root: Parent, token_ids: Sequence[int]) -> list[int]:
        """Indexed pages that go on with `token_ids` where this table ends.

        None where its last page is not registered, a partial one above all. `token_ids` are the
        sequence's known tokens from the first on. Changes nothing.
        """
        parent = self._parent(root, len(self._page_ids))
        if parent is None:
            return []
        return self._pool.lookup(parent, token_ids, self._context_len)

    def adopt(self, page_ids: Sequence[int]) -> None:
        """Take computed pages, as `next_cached` found them, as the next ones of this table."""
        self._pool.retain(page_ids)
        self._page_ids += page_ids
        self._context_len += len(page_ids) * self._pool.page_size
        self._num_registered += len(page_ids)

    def register_computed(self, root: Parent, token_ids: Sequence[int]) -> None:
        """Make every full page findable; call it once all of the table's K/V is computed.

        `token_ids` are the sequence's known tokens from the first on. It stops at a page that was
        forked before it was registered: the other holder may keep another page before that one.
        """
        size = self._pool.page_size
        for i in range(self._num_registered, self._context_len // size):
            page, parent = self._page_ids[i], self._parent(root, i)
            assert parent is not None
            if self._pool.reference_count(page) > 1:
                return
            tokens = token_ids[i * size : (i + 1) * size]
            self._page_ids[i] = self._pool.register(parent, tokens, page)
            self._num_registered = i + 1

    def _parent(self, root: Parent, page_index: int) -> Parent | None:
        """The parent in the prefix index of the page at `page_index`; None where it is not registered."""
        if page_index == 0:
            return root
        return self._page_ids[page_index - 1] if self._num_registered >= page_index else None

    def _pages_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self._pool.page_size)

    def _tail_needs_copy(self) -> bool:
        return self.num_unused_slots > 0 and not self._pool.is_writable(self._page_ids[-1])

    def _drop_pages(self, count: int) -> None:
        if count:
            dropped = self._page_ids[-count:]
            del self._page_ids[-count:]
            self._pool.release(dropped)
