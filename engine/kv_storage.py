"""The KVPages of all layers: of one size, and a page is copied in all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.engine_stats import CopiedBytes, StorageStats
from engine.growth import grown_capacity
from engine.kv_pages import KVPages, WriteRows, write_with_kernel
from engine.page_table import PageCopy


@dataclass(frozen=True, slots=True)
class KVShape:
    """The sizes of one model's pages."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    page_size: int
    dtype: mx.Dtype

    @property
    def bytes_per_page(self) -> int:
        """All layers, K and V."""
        slots = self.num_layers * self.num_kv_heads * self.page_size
        return 2 * slots * self.head_dim * self.dtype.size


class KVStorage:
    """The mutable state is the layers, the capacity and the counters.

    `reserved` storage has arrays for all its pages from the start and copies nothing, ever: it is
    for systems that give an array its memory where it is written. Other storage grows by doubling.
    """

    def __init__(
        self,
        shape: KVShape,
        num_pages: int,
        write_rows: WriteRows = write_with_kernel,
        *,
        reserved: bool = False,
    ) -> None:
        """Raises MemoryError where the system refuses the address space of reserved storage."""
        self.shape = shape
        self.num_pages = num_pages  # the budget
        self.num_growths = 0
        self._num_grown_bytes = 0
        self._num_page_copies = 0
        self.layers = tuple(
            KVPages(shape.num_kv_heads, shape.page_size, shape.head_dim, shape.dtype, write_rows)
            for _ in range(shape.num_layers)
        )
        self._reserved = reserved
        self._capacity = 0
        if reserved:
            for layer in self.layers:
                layer.grow(num_pages)

    @property
    def capacity(self) -> int:
        """Pages that have memory behind them; of reserved ones those that were ever used."""
        return self._capacity

    def ensure(self, num_pages: int) -> None:
        """Make the page ids below `num_pages` usable. One layer grows at a time.

        Raises MemoryError; the next call goes on where this one failed.
        """
        if self._reserved:
            self._capacity = max(self._capacity, num_pages)
        else:
            self._grow(num_pages)

    def _grow(self, num_pages: int) -> None:
        old = self._capacity
        capacity = grown_capacity(old, num_pages, self.num_pages)
        if capacity == old:
            return
        for layer in self.layers:
            layer.grow(capacity)
        self._capacity = capacity
        self.num_growths += 1
        self._num_grown_bytes += old * self.shape.bytes_per_page

    def copy_pages(self, copies: Sequence[PageCopy]) -> None:
        if copies:
            for layer in self.layers:
                layer.copy_pages(copies)
            self._num_page_copies += len(copies)

    def stats(self) -> StorageStats:
        bytes_per_page = self.shape.bytes_per_page
        return StorageStats(self.capacity, bytes_per_page, self.num_growths, self.copied)

    @property
    def copied(self) -> CopiedBytes:
        return CopiedBytes(
            growth=self._num_grown_bytes,
            pages=self._num_page_copies * self.shape.bytes_per_page,
            gather=sum(layer.num_gathered_bytes for layer in self.layers),
        )

    def arrays(self) -> list[mx.array]:
        """Every array, for the evaluation at the end of a step."""
        return [array for layer in self.layers for array in layer.snapshot()]

    def snapshot(self) -> list[tuple[mx.array, mx.array]]:
        return [layer.snapshot() for layer in self.layers]

    def restore(self, snapshot: list[tuple[mx.array, mx.array]]) -> None:
        for layer, arrays in zip(self.layers, snapshot, strict=True):
            layer.restore(arrays)
