"""Mistakes that people make in a paged cache, each as one change of text.

Those named s01 to s13 are the pitfalls that the second seed lists. Where the pitfall lies in the
storage or in the seed's interface, the change is made to KVPages, to the NumPy pages beside it or
to the adapter.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.mutation.operators import Mutant

POOL = "engine.page_pool"
TABLE = "engine.page_table"
INDEX = "engine.prefix_index"
DEVICE = "engine.kv_pages"
PAGES = "tests.engine.seeds.layer_pages"
ADAPTER = "tests.engine.seeds.paged_kv_cache"


@dataclass(frozen=True, slots=True)
class HandMade:
    module: str
    name: str
    old: str
    new: str

    def mutant(self) -> Mutant:
        source = source_of(self.module)
        assert source.count(self.old) == 1, (
            f"{self.name}: its text must stand once in {self.module}"
        )
        return Mutant(self.module, self.name, source.replace(self.old, self.new))


def source_of(module: str) -> str:
    spec = find_spec(module)
    assert spec
    assert spec.origin
    return Path(spec.origin).read_text(encoding="utf-8")


HAND_MADE = (
    HandMade(
        TABLE,
        "s01 a page too many where a write ends on a border",
        "return -(-num_tokens // self._pool.page_size)",
        "return num_tokens // self._pool.page_size + 1",
    ),
    HandMade(
        ADAPTER,
        "s02 gather returns whole pages",
        ".gather(self._table(seq_id).page_ids, length)",
        ".gather(self._table(seq_id).page_ids, -(-length // self._pool.page_size)"
        " * self._pool.page_size)",
    ),
    HandMade(
        DEVICE,
        "s02 gather returns whole pages, on the device",
        "_rows(self._key_pages[pages])[:context_len]",
        "_rows(self._key_pages[pages])",
    ),
    HandMade(
        PAGES,
        "s03 a page is read as [page_size, heads, dims]",
        "chosen.swapaxes(1, 2).reshape(",
        "chosen.reshape(",
    ),
    HandMade(
        DEVICE,
        "s03 a page is read as [page_size, heads, dims], on the device",
        "pages.swapaxes(1, 2).reshape(",
        "pages.reshape(",
    ),
    HandMade(
        PAGES,
        "s04 K is written where V belongs",
        "self._write_rows(self.value_pages, values, slots)",
        "self._write_rows(self.value_pages, keys, slots)",
    ),
    HandMade(
        DEVICE,
        "s04 K is written where V belongs, on the device",
        "self._write_rows(self._value_pages, values, slot_mapping)",
        "self._write_rows(self._value_pages, keys, slot_mapping)",
    ),
    HandMade(
        TABLE,
        "s05 a chunk ignores its starting slot",
        "[self._page_ids[p // size] * size + p % size for p in range(start, stop)]",
        "[self._page_ids[p // size] * size + (p - start) % size for p in range(start, stop)]",
    ),
    HandMade(
        TABLE,
        "s06 a fork takes no references",
        "        self._pool.retain(self._page_ids)\n        child",
        "        child",
    ),
    HandMade(
        TABLE,
        "s06 a fork takes a reference on its first page only",
        "self._pool.retain(self._page_ids)",
        "self._pool.retain(self._page_ids[:1])",
    ),
    HandMade(
        TABLE,
        "s07 a shared page is written in place",
        "return self.num_unused_slots > 0 and not self._pool.is_writable(self._page_ids[-1])",
        "return False",
    ),
    HandMade(
        POOL,
        "s07 an indexed page is written in place",
        "self.reference_count(page_id) == 1 and page_id not in self._index",
        "self.reference_count(page_id) == 1",
    ),
    HandMade(
        TABLE,
        "s08 a table is emptied without releasing its pages",
        "            self._pool.release(dropped)\n",
        "",
    ),
    HandMade(
        TABLE,
        "s09 only the first page is released",
        "self._pool.release(dropped)",
        "self._pool.release(dropped[:1])",
    ),
    HandMade(
        TABLE,
        "s10 the length moves before the pages are there",
        "        copies = self._tail_needs_copy()\n"
        "        new = self._pool.allocate(self.pages_needed(num_tokens))\n",
        "        copies = self._tail_needs_copy()\n"
        "        needed = self.pages_needed(num_tokens)\n"
        "        self._context_len += num_tokens\n"
        "        new = self._pool.allocate(needed)\n"
        "        self._context_len -= num_tokens\n",
    ),
    HandMade(
        TABLE,
        "s11 pages are allocated one at a time",
        "new = self._pool.allocate(self.pages_needed(num_tokens))",
        "new = [self._pool.allocate(1)[0] for _ in range(self.pages_needed(num_tokens))]",
    ),
    HandMade(
        POOL,
        "s11 the pool gives what it has before it refuses",
        "        if count > self.num_available:\n"
        "            raise OutOfPages(count, self.num_available)\n"
        "        pages = [self._take_one() for _ in range(count)]\n",
        "        pages = [self._take_one() for _ in range(min(count, self.num_available))]\n"
        "        if count > len(pages):\n"
        "            raise OutOfPages(count, len(pages))\n",
    ),
    HandMade(
        ADAPTER,
        "s12 every layer is as long as the longest",
        "return self._lengths[seq_id][layer]",
        "return max(self._lengths[seq_id])",
    ),
    HandMade(
        TABLE,
        "s13 an empty append is accepted",
        "if num_tokens < 1:",
        "if num_tokens < 0:",
    ),
    HandMade(
        ADAPTER,
        "s13 an empty chunk is accepted",
        "        if array.shape[1] == 0:\n"
        '            raise ValueError("an append takes at least one position")\n',
        "",
    ),
    HandMade(
        INDEX,
        "a hash stands for the tokens",
        "return self._pages.get(_Key(parent, tuple(token_ids)))",
        "return {hash(key): page for key, page in self._pages.items()}.get("
        "hash(_Key(parent, tuple(token_ids))))",
    ),
    HandMade(
        INDEX,
        "the parent does not matter",
        "key = _Key(parent, tuple(token_ids))\n        assert key",
        'key = _Key(Root(""), tuple(token_ids))\n        assert key',
    ),
    HandMade(
        INDEX,
        "an evicted page is still found",
        "        del self._pages[key]\n",
        "",
    ),
    HandMade(
        POOL,
        "the most recently used page is evicted first",
        "self._cached.popitem(last=False)",
        "self._cached.popitem(last=True)",
    ),
    HandMade(
        POOL,
        "a text is evicted from its start",
        "for page in reversed(page_ids):",
        "for page in page_ids:",
    ),
    HandMade(
        POOL,
        "cached pages are evicted while fresh ones are left",
        "        if self._num_touched < self.num_pages:\n",
        "        if self._num_touched < self.num_pages and not self._cached:\n",
    ),
    HandMade(
        POOL,
        "a retained cached page can still be evicted",
        "            self._cached.pop(page, None)\n",
        "",
    ),
    HandMade(
        POOL,
        "retain checks and commits page by page",
        "        for page in page_ids:\n            self._cached.pop",
        "            self._cached.pop",
    ),
    HandMade(
        POOL,
        "release checks each name once, so a page can be released twice in one call",
        "for page, count in Counter(page_ids).items():",
        "for page, count in ((page, 1) for page in page_ids):",
    ),
    HandMade(
        POOL,
        "the page of a text computed twice is kept",
        "            self.release([page_id])\n",
        "",
    ),
    HandMade(
        POOL,
        "the known page of a text computed twice gets no reference",
        "            self.retain([known])\n",
        "",
    ),
    HandMade(
        TABLE,
        "the source of a copy is let go before the copy is made",
        "            self._page_ids[-1] = copy.target\n",
        "            self._page_ids[-1] = copy.target\n            self._pool.release([copy.source])\n",
    ),
    HandMade(
        TABLE,
        "undo forgets the copy",
        "            self._pool.release([reservation.copy.target])\n"
        "            self._page_ids[-1] = reservation.copy.source\n",
        "            pass\n",
    ),
    HandMade(
        TABLE,
        "undo gives back the copy before the pages behind it",
        "        self._drop_pages(reservation.num_new_pages)\n"
        "        if reservation.copy:\n"
        "            assert self._page_ids[-1] == reservation.copy.target\n"
        "            self._pool.release([reservation.copy.target])\n"
        "            self._page_ids[-1] = reservation.copy.source\n",
        "        if reservation.copy:\n"
        "            self._pool.release([reservation.copy.target])\n"
        "            self._page_ids[-reservation.num_new_pages - 1] = reservation.copy.source\n"
        "        self._drop_pages(reservation.num_new_pages)\n",
    ),
    HandMade(
        TABLE,
        "undo stays as long as it was",
        "        self._context_len -= reservation.num_tokens\n",
        "",
    ),
    HandMade(
        TABLE,
        "a fork aliases its parent's list of pages",
        "child._page_ids = list(self._page_ids)",
        "child._page_ids = self._page_ids",
    ),
    HandMade(
        TABLE,
        "a fork forgets which pages are registered",
        "        child._num_registered = self._num_registered\n",
        "",
    ),
    HandMade(
        TABLE,
        "rewind keeps a page that is no longer needed",
        "self._drop_pages(len(self._page_ids) - self._pages_for(kept))",
        "self._drop_pages(num_tokens // self._pool.page_size)",
    ),
    HandMade(
        TABLE,
        "rewind believes a shortened page to be registered",
        "        self._num_registered = min(self._num_registered, kept // self._pool.page_size)\n",
        "",
    ),
    HandMade(
        TABLE,
        "a half page is registered",
        "for i in range(self._num_registered, self._context_len // size):",
        "for i in range(self._num_registered, len(self._page_ids)):",
    ),
    HandMade(
        TABLE,
        "a page that a fork shares is registered under one holder's parent",
        "            if self._pool.reference_count(page) > 1:\n                return\n",
        "",
    ),
    HandMade(
        TABLE,
        "adopted pages get no reference",
        "        self._pool.retain(page_ids)\n        self._page_ids += page_ids",
        "        self._page_ids += page_ids",
    ),
    HandMade(
        TABLE,
        "a table with a started tail adopts pages",
        " if self._num_registered >= page_index else None",
        "",
    ),
)
