"""Pool, tables and prefix index side by side with plain lists that say what they must hold.

Every slot holds the whole text up to its token, salt included. So after each operation each table
must read back exactly its list, and whatever the index promises must be so.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from engine.errors import OutOfPages, PageNotHeld
from engine.page_pool import PagePool
from engine.page_table import PageTable, Reservation
from engine.prefix_index import Root
from tests.support.pools import see

Text = tuple[int, ...]
Cell = tuple[str, Text]  # the salt and the whole text up to this slot's token
FOREIGN: Cell = ("foreign", ())
MOST_HOLDERS = 5


@dataclass(eq=False, slots=True)
class Holder:
    """A table and the plain list that it must equal."""

    table: PageTable
    salt: str
    tokens: list[int] = field(default_factory=list)

    @property
    def root(self) -> Root:
        return Root(self.salt)

    def cells(self) -> list[Cell]:
        return [(self.salt, tuple(self.tokens[: i + 1])) for i in range(len(self.tokens))]


class PagesOracle:
    """Operations pick a holder by any number. `tally` counts what happened, edge by edge."""

    def __init__(self, num_pages: int, page_size: int, tally: Counter[str]) -> None:
        self.pool = PagePool(num_pages, page_size)
        self.holders: list[Holder] = []
        self.tally = tally
        self._cells: dict[int, Cell] = {}  # by flat slot
        self._texts: dict[int, Cell] = {}  # of registered pages

    # --- operations ---

    def begin(self, salt: str, text: list[int], is_warm: bool) -> None:
        """A new table takes, where `is_warm`, what is cached of its text, and computes the rest."""
        if len(self.holders) == MOST_HOLDERS:
            self.release(0)
        holder = Holder(PageTable(self.pool), salt)
        self.holders.append(holder)
        if is_warm:
            self.adopt(-1, text)
        if rest := text[len(holder.tokens) :]:
            self.append(-1, rest, is_registered=True)

    def adopt(self, pick: int, more: list[int]) -> None:
        """Go on with cached pages of the text that `more` makes of this holder's."""
        holder = self._pick(pick)
        text = holder.tokens + more
        found = holder.table.next_cached(holder.root, text)
        holder.table.adopt(found)
        holder.tokens = text[: len(holder.tokens) + len(found) * self.pool.page_size]
        self.tally["adopted pages"] += len(found)

    def append(self, pick: int, tokens: list[int], is_registered: bool) -> None:
        holder = self._pick(pick)
        if reservation := self._reserve(holder, len(tokens)):
            self._copy(reservation)
            self._fill(holder, tokens)
            holder.table.keep(reservation)
        if is_registered:
            self.register(pick)

    def step(self, pick: int, tokens: list[int], is_kept: bool) -> None:
        """All tables append, then all of it is kept or, after it was written, undone."""
        before = self._see_tables()
        reserved = [
            (holder, reservation)
            for holder in (self._pick(pick + i) for i in range(len(self.holders)))
            if (reservation := self._reserve(holder, len(tokens)))
        ]
        for _, reservation in reserved:
            self._copy(reservation)
        for holder, _ in reserved:
            self._fill(holder, tokens)
        if is_kept:
            for holder, reservation in reserved:
                holder.table.keep(reservation)
            return
        for holder, reservation in reversed(reserved):
            holder.table.undo(reservation)
            del holder.tokens[-reservation.num_tokens :]
            self.tally["undone copies"] += reservation.copy is not None
        assert self._see_tables() == before

    def fork(self, pick: int) -> None:
        if len(self.holders) == MOST_HOLDERS:
            self.release(pick + 1)
        parent = self._pick(pick)
        before = see(self.pool).counts
        child = Holder(parent.table.fork(), parent.salt, list(parent.tokens))
        assert see(self.pool).counts == before, "a fork takes or frees a page"
        self.holders.append(child)

    def rewind(self, pick: int, num_tokens: int) -> None:
        holder = self._pick(pick)
        if not 0 <= num_tokens <= len(holder.tokens):
            self._refuse(ValueError, lambda: holder.table.rewind(num_tokens))
            return
        holder.table.rewind(num_tokens)
        del holder.tokens[len(holder.tokens) - num_tokens :]

    def release(self, pick: int) -> None:
        holder = self._pick(pick)
        holder.table.release()
        self.holders.remove(holder)

    def register(self, pick: int) -> None:
        holder = self._pick(pick)
        own = list(holder.table.page_ids)
        holder.table.register_computed(holder.root, holder.tokens)
        size = self.pool.page_size
        for i in range(len(holder.tokens) // size):
            page = holder.table.page_ids[i]
            if not self.pool.is_indexed(page):
                assert self.pool.reference_count(page) > 1, "a full page was not registered"
                return
            self._texts[page] = holder.salt, tuple(holder.tokens[: (i + 1) * size])
            self.tally["deduplicated pages"] += page != own[i]

    def take_and_return(self, count: int) -> None:
        """Someone else fills pages with something else: what was cached there is evicted."""
        if count > self.pool.num_available:
            self._refuse(OutOfPages, lambda: self.pool.allocate(count))
            return
        evicted = self.pool.num_evictions
        pages = self.pool.allocate(count)
        for page in pages:
            self._cells.update(dict.fromkeys(self._slots(page), FOREIGN))
        self.pool.release(pages)
        self.tally["evictions"] += self.pool.num_evictions - evicted

    def misuse(self, page: int) -> None:
        """Release a page once too often; retain it if it is free."""
        held = self.pool.reference_count(page)
        self._refuse(PageNotHeld, lambda: self.pool.release([page] * (held + 1)))
        if not held and not self.pool.is_cached(page):
            self._refuse(PageNotHeld, lambda: self.pool.retain([*self._pages_held(), page]))

    def lookup(self, salt: str, text: list[int]) -> None:
        """What is found holds just this text, it is all there is, and nothing changes."""
        before = see(self.pool)
        found = self.pool.lookup(Root(salt), text, 0)
        assert see(self.pool) == before
        size = self.pool.page_size
        covered = [(salt, tuple(text[: i + 1])) for i in range(len(found) * size)]
        assert self._read(found) == covered
        next_page = tuple(text[: (len(found) + 1) * size])
        is_full = len(next_page) % size == 0 and len(next_page) > len(covered)
        assert not (is_full and (salt, next_page) in self._promised().values())

    # --- laws ---

    def check(self) -> None:
        self.tally["operations"] += 1
        self.pool.check(self._pages_held())
        for holder in self.holders:
            self._check_table(holder)
        self._check_promises()

    def finish(self) -> None:
        while self.holders:
            self.release(0)
        assert self.pool.num_used == 0
        assert self.pool.num_available == self.pool.num_pages

    def _check_table(self, holder: Holder) -> None:
        table, size = holder.table, self.pool.page_size
        assert table.context_len == len(holder.tokens)
        assert len(table.page_ids) == -(-len(holder.tokens) // size)
        assert table.num_unused_slots == len(table.page_ids) * size - len(holder.tokens)
        slots = table.slots(0, len(holder.tokens))
        assert [self._cells[slot] for slot in slots] == holder.cells()

    def _check_promises(self) -> None:
        """The index has exactly the registered pages, and each is found by its text alone."""
        indexed = {page for page in range(self.pool.num_pages) if self.pool.is_indexed(page)}
        promised = self._promised()
        assert {*promised} == indexed
        for page, (salt, text) in promised.items():
            chain = self.pool.lookup(Root(salt), text, 0)
            assert chain[-1:] == [page], "a promised page is not found"
            assert self._read(chain)[-1] == (salt, text), "a promised page holds another text"

    # --- helpers ---

    def _pick(self, number: int) -> Holder:
        return self.holders[number % len(self.holders)]

    def _slots(self, page: int) -> range:
        return range(page * self.pool.page_size, (page + 1) * self.pool.page_size)

    def _read(self, pages: list[int]) -> list[Cell]:
        return [self._cells[slot] for page in pages for slot in self._slots(page)]

    def _pages_held(self) -> list[int]:
        return [page for holder in self.holders for page in holder.table.page_ids]

    def _promised(self) -> dict[int, Cell]:
        """Texts of the pages that are still indexed; evicted ones are forgotten."""
        self._texts = {p: text for p, text in self._texts.items() if self.pool.is_indexed(p)}
        return self._texts

    def _see_tables(self) -> list[tuple[list[int], int]]:
        return [(list(h.table.page_ids), h.table.context_len) for h in self.holders]

    def _refuse(self, error: type[Exception], operation: Callable[[], object]) -> None:
        before = see(self.pool), self._see_tables()
        with pytest.raises(error):
            operation()
        assert (see(self.pool), self._see_tables()) == before, "a refusal changed something"
        self.tally[f"refusals by {error.__name__}"] += 1

    def _reserve(self, holder: Holder, num_tokens: int) -> Reservation | None:
        """Append as foretold, or see that the refusal changed nothing."""
        needed = holder.table.pages_needed(num_tokens)
        available = self.pool.num_available
        fits = holder.table.tokens_that_fit(available)
        assert (num_tokens <= fits) == (needed <= available)
        if needed > available:
            self._refuse(OutOfPages, lambda: holder.table.append(num_tokens))
            return None
        evicted = self.pool.num_evictions
        reservation = holder.table.append(num_tokens)
        assert available - self.pool.num_available == needed
        self.tally["evictions"] += self.pool.num_evictions - evicted
        self._promised()
        return reservation

    def _copy(self, reservation: Reservation) -> None:
        if copy := reservation.copy:
            self.tally["page copies"] += 1
            cells = [self._cells.get(slot, FOREIGN) for slot in self._slots(copy.source)]
            self._cells.update(zip(self._slots(copy.target), cells, strict=True))

    def _fill(self, holder: Holder, tokens: list[int]) -> None:
        start = len(holder.tokens)
        holder.tokens += tokens
        slots = holder.table.slots(start, len(holder.tokens))
        self._cells.update(zip(slots, holder.cells()[start:], strict=True))
