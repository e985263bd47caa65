"""One layer's K and V: [P, H_kv, page_size, D] each, P the capacity in pages.

`paged_cache_update` writes in place and returns an array on the same memory. So KVPages is the
sole owner of its two arrays and rebinds them at once; whoever attends must read the new ones.
"""

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from engine.page_table import PageCopy
from metal import empty, paged_cache_update


class WriteRows(Protocol):
    """Stores values [T, H, D] at slots int32 [T] of pages [P, H, page_size, D]."""

    def __call__(self, pages: mx.array, values: mx.array, slot_mapping: mx.array) -> mx.array:
        """Gives the pages to go on with; the old array is not to be used any more."""
        ...


def write_with_kernel(pages: mx.array, values: mx.array, slot_mapping: mx.array) -> mx.array:
    """In place."""
    return paged_cache_update(pages, values, slot_mapping)


def write_with_mlx(pages: mx.array, values: mx.array, slot_mapping: mx.array) -> mx.array:
    """With MLX's own operations alone, for slots that are all in the pages; copies the pages."""
    page_size = pages.shape[2]
    heads = mx.arange(pages.shape[1])[None]  # [1, H]
    page, offset = slot_mapping // page_size, slot_mapping % page_size  # [T]
    written = mx.array(pages)  # another array: the old one stays as it is
    written[page[:, None], heads, offset[:, None]] = values.astype(pages.dtype)
    return written


class KVPages:
    """The mutable state is the two arrays, and the bytes of pages that `gather` copied."""

    def __init__(
        self,
        num_kv_heads: int,
        page_size: int,
        head_dim: int,
        dtype: mx.Dtype,
        write_rows: WriteRows = write_with_kernel,
    ) -> None:
        self._write_rows = write_rows
        self.num_gathered_bytes = 0
        shape = (0, num_kv_heads, page_size, head_dim)
        self._key_pages = mx.zeros(shape, dtype)
        self._value_pages = mx.zeros(shape, dtype)

    @property
    def key_pages(self) -> mx.array:
        return self._key_pages

    @property
    def value_pages(self) -> mx.array:
        return self._value_pages

    @property
    def capacity(self) -> int:
        """Pages in both arrays."""
        return min(self._key_pages.shape[0], self._value_pages.shape[0])

    @property
    def nbytes(self) -> int:
        return self._key_pages.nbytes + self._value_pages.nbytes

    def grow(self, capacity: int) -> None:
        """Move to larger arrays, first K, then V, so that only one array exists twice at a time.

        After a MemoryError in the middle the same call goes on with what is missing.
        """
        self._key_pages = _grown(self._key_pages, capacity)
        self._value_pages = _grown(self._value_pages, capacity)

    def write(self, keys: mx.array, values: mx.array, slot_mapping: mx.array) -> None:
        """Store keys and values [T, H_kv, D] at the flat slots `slot_mapping` int32 [T]."""
        self._key_pages = self._write_rows(self._key_pages, keys, slot_mapping)
        self._value_pages = self._write_rows(self._value_pages, values, slot_mapping)

    def copy_pages(self, copies: Sequence[PageCopy]) -> None:
        """Copy whole pages. No target is also a source."""
        page_size = self._key_pages.shape[2]
        sources = mx.array([copy.source for copy in copies], mx.int32)  # [N]
        slots = [copy.target * page_size + i for copy in copies for i in range(page_size)]
        slot_mapping = mx.array(slots, mx.int32)  # [N * page_size]
        keys = _rows(self._key_pages[sources])
        self.write(keys, _rows(self._value_pages[sources]), slot_mapping)

    def gather(self, page_ids: Sequence[int], context_len: int) -> tuple[mx.array, mx.array]:
        """K and V of one sequence in the order of its tokens, [context_len, H_kv, D] each, copied."""
        pages = mx.array(list(page_ids), mx.int32)
        self.num_gathered_bytes += len(page_ids) * (self.nbytes // self.capacity)
        return (
            _rows(self._key_pages[pages])[:context_len],
            _rows(self._value_pages[pages])[:context_len],
        )

    def snapshot(self) -> tuple[mx.array, mx.array]:
        """The two arrays as they are bound now, for `restore`."""
        return self._key_pages, self._value_pages

    def restore(self, snapshot: tuple[mx.array, mx.array]) -> None:
        """Bind the arrays of before a failed step again; they lie on the same memory."""
        self._key_pages, self._value_pages = snapshot


def _rows(pages: mx.array) -> mx.array:
    """[N, H, page_size, D] -> [N * page_size, H, D]"""
    num_pages, num_heads, page_size, head_dim = pages.shape
    return pages.swapaxes(1, 2).reshape(num_pages * page_size, num_heads, head_dim)


def _grown(pages: mx.array, capacity: int) -> mx.array:
    if pages.shape[0] >= capacity:
        return pages
    fresh = empty((capacity, *pages.shape[1:]), pages.dtype)  # no slot is read before it is written
    # MLX writes into `fresh` itself, as nothing else refers to it
    grown = mx.slice_update(fresh, pages, mx.array([0]), axes=[0])
    del fresh
    mx.eval(grown)
    return grown
