"""The interface of the second seed over our PagePool and PageTable.

There a forward pass appends layer by layer, so in mid-pass the layers hold different lengths. Here
one table serves all layers: it is as long as the longest, and each layer's length is kept beside.
"""

from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.errors import OutOfPages
from engine.page_pool import PagePool
from engine.page_table import PageTable
from tests.engine.seeds.layer_pages import Array, MakeLayer


class OutOfBlocks(RuntimeError):
    """The pool cannot give the blocks that an append needs; nothing was changed."""


class PagedKVCache:
    """K and V in float16. Wrong arguments raise ValueError, unknown ids KeyError."""

    def __init__(  # noqa: PLR0913, PLR0917 - the seed's signature, and where the layers lie
        self,
        num_blocks: int,
        block_size: int,
        n_layers: int,
        n_kv_heads: int,
        d_head: int,
        make_layer: MakeLayer,
    ) -> None:
        if min(num_blocks, block_size, n_layers, n_kv_heads, d_head) < 1:
            raise ValueError("every size must be at least 1")
        self._pool = PagePool(num_blocks, block_size)
        self._layers = [
            make_layer(num_blocks, n_kv_heads, block_size, d_head) for _ in range(n_layers)
        ]
        self._row_shape = (n_kv_heads, d_head)
        self._tables: dict[int, PageTable] = {}
        self._lengths: dict[int, list[int]] = {}  # of each layer

    def add_seq(self, seq_id: int) -> None:
        self._refuse_used(seq_id)
        self._tables[seq_id] = PageTable(self._pool)
        self._lengths[seq_id] = [0] * len(self._layers)

    def fork(self, parent: int, child: int) -> None:
        table = self._table(parent)
        self._refuse_used(child)
        self._tables[child] = table.fork()
        self._lengths[child] = list(self._lengths[parent])

    def append(self, seq_id: int, layer: int, k: ArrayLike, v: ArrayLike) -> None:
        """Store k and v [H, T, D]. Raises OutOfBlocks; whatever it raises, nothing has changed."""
        table = self._table(seq_id)
        length = self.seq_len(seq_id, layer)
        keys, values = self._rows(k), self._rows(v)
        if keys.shape != values.shape:
            raise ValueError(f"k and v differ: {keys.shape} and {values.shape}")
        try:
            self._tables[seq_id] = self._write(table, layer, length, keys, values)
        except OutOfPages as error:
            raise OutOfBlocks(str(error)) from None
        self._lengths[seq_id][layer] += len(keys)

    def block_table(self, seq_id: int) -> NDArray[np.int32]:
        return np.array(self._table(seq_id).page_ids, np.int32)

    def seq_len(self, seq_id: int, layer: int = 0) -> int:
        self._table(seq_id)
        if not 0 <= layer < len(self._layers):
            raise ValueError(f"layer {layer} of {len(self._layers)}")
        return self._lengths[seq_id][layer]

    def gather(self, seq_id: int, layer: int) -> tuple[Array, Array]:
        """K and V of one layer, float16 [H, length, D] each."""
        length = self.seq_len(seq_id, layer)
        keys, values = self._layers[layer].gather(self._table(seq_id).page_ids, length)
        return keys.swapaxes(0, 1), values.swapaxes(0, 1)

    def free(self, seq_id: int) -> None:
        self._table(seq_id).release()
        del self._tables[seq_id], self._lengths[seq_id]

    def stats(self) -> dict[str, int]:
        pool = self._pool
        return {
            "free": pool.num_free,
            "used": pool.num_used,
            "cached": pool.num_cached,
            "evictions": pool.num_evictions,
        }

    def num_free_blocks(self) -> int:
        return self._pool.num_free

    def check(self) -> None:
        """Raise AssertionError unless the pool's law holds."""
        self._pool.check(page for table in self._tables.values() for page in table.page_ids)

    def close(self) -> None:
        for seq_id in list(self._tables):
            self.free(seq_id)

    def __enter__(self) -> "PagedKVCache":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- one append ---

    def _write(
        self, table: PageTable, layer: int, start: int, keys: Array, values: Array
    ) -> PageTable:
        """Write behind `start`; returns the table that then holds the sequence."""
        stop = start + len(keys)
        if start == table.context_len:
            self._extend(table, layer, keys, values)
            return table
        if not self._is_shared(table, start, stop) and stop <= table.context_len:
            self._layers[layer].write(keys, values, table.slots(start, stop))
            return table
        return self._replace(table, layer, start, keys, values)

    def _extend(self, table: PageTable, layer: int, keys: Array, values: Array) -> None:
        """The ordinary case: this layer is the longest and leads the table on."""
        start = table.context_len
        reservation = table.append(len(keys))
        try:
            if reservation.copy:
                for pages in self._layers:
                    pages.copy(reservation.copy.source, reservation.copy.target)
            slots = table.slots(start, table.context_len)
            self._layers[layer].write(keys, values, slots)
        except BaseException:
            table.undo(reservation)
            raise
        table.keep(reservation)

    def _replace(
        self, table: PageTable, layer: int, start: int, keys: Array, values: Array
    ) -> PageTable:
        """A layer that lags behind writes where pages are shared, or past the end: the pages from
        there on get copies, in a new table that shares the pages before."""
        stop = max(start + len(keys), table.context_len)
        kept = start // self._pool.page_size
        other = table.fork()
        other.rewind(table.context_len - kept * self._pool.page_size)
        try:
            other.keep(other.append(stop - other.context_len))
            for source, target in zip(table.page_ids[kept:], other.page_ids[kept:], strict=False):
                for pages in self._layers:
                    pages.copy(source, target)
            self._layers[layer].write(keys, values, other.slots(start, start + len(keys)))
        except BaseException:
            other.release()
            raise
        table.release()
        return other

    def _is_shared(self, table: PageTable, start: int, stop: int) -> bool:
        size = self._pool.page_size
        touched = table.page_ids[start // size : -(-stop // size)]
        return any(self._pool.reference_count(page) > 1 for page in touched)

    # --- checks ---

    def _rows(self, heads: ArrayLike) -> Array:
        """[H, T, D] of any float dtype as float16 [T, H, D]."""
        array = np.asarray(heads, np.float16)
        num_heads, head_dim = self._row_shape
        if array.ndim != 3 or array.shape[0] != num_heads or array.shape[2] != head_dim:
            raise ValueError(f"expected [{num_heads}, T, {head_dim}], got {array.shape}")
        if array.shape[1] == 0:
            raise ValueError("an append takes at least one position")
        return array.swapaxes(0, 1)

    def _table(self, seq_id: int) -> PageTable:
        return self._tables[seq_id]

    def _refuse_used(self, seq_id: int) -> None:
        if seq_id in self._tables:
            raise ValueError(f"sequence {seq_id} exists already")
