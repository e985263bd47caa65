"""Where one layer's K and V lie, as the adapter sees it: a few lines of NumPy, or KVPages itself."""

from collections.abc import Callable, Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.kv_pages import KVPages
from engine.page_table import PageCopy

Array = NDArray[np.float16]


class LayerPages(Protocol):
    """Keys and values are [T, H, D], slots are flat."""

    def write(self, keys: Array, values: Array, slots: Sequence[int]) -> None: ...

    def copy(self, source: int, target: int) -> None: ...

    def gather(self, page_ids: Sequence[int], length: int) -> tuple[Array, Array]:
        """K and V of the first `length` tokens that lie in these pages, [length, H, D] each."""
        ...


# Number of pages, heads, page size, head size.
MakeLayer = Callable[[int, int, int, int], LayerPages]


class NumpyPages:
    """key_pages and value_pages [P, H, page_size, D] float16, the layout of KVPages."""

    def __init__(self, num_pages: int, num_heads: int, page_size: int, head_dim: int) -> None:
        shape = (num_pages, num_heads, page_size, head_dim)
        self.key_pages: Array = np.zeros(shape, np.float16)
        self.value_pages: Array = np.zeros(shape, np.float16)

    def write(self, keys: Array, values: Array, slots: Sequence[int]) -> None:
        self._write_rows(self.key_pages, keys, slots)
        self._write_rows(self.value_pages, values, slots)

    def copy(self, source: int, target: int) -> None:
        for pages in (self.key_pages, self.value_pages):
            pages[target] = pages[source]

    def gather(self, page_ids: Sequence[int], length: int) -> tuple[Array, Array]:
        return self._rows(self.key_pages, page_ids, length), self._rows(
            self.value_pages, page_ids, length
        )

    def _write_rows(self, pages: Array, rows: Array, slots: Sequence[int]) -> None:
        page_size = pages.shape[2]
        for row, slot in zip(rows, slots, strict=True):
            pages[slot // page_size, :, slot % page_size] = row

    def _rows(self, pages: Array, page_ids: Sequence[int], length: int) -> Array:
        chosen = pages[list(page_ids)]  # [N, H, page_size, D]
        num_heads, head_dim = pages.shape[1], pages.shape[3]
        return chosen.swapaxes(1, 2).reshape(-1, num_heads, head_dim)[:length]


class DevicePages:
    """KVPages in float16, evaluated after every call."""

    def __init__(self, num_pages: int, num_heads: int, page_size: int, head_dim: int) -> None:
        self._pages = KVPages(num_heads, page_size, head_dim, mx.float16)
        self._pages.grow(num_pages)

    def write(self, keys: Array, values: Array, slots: Sequence[int]) -> None:
        self._pages.write(mx.array(keys), mx.array(values), mx.array(list(slots), mx.int32))
        mx.eval(*self._pages.snapshot())

    def copy(self, source: int, target: int) -> None:
        self._pages.copy_pages([PageCopy(source, target)])
        mx.eval(*self._pages.snapshot())

    def gather(self, page_ids: Sequence[int], length: int) -> tuple[Array, Array]:
        keys, values = self._pages.gather(page_ids, length)
        return np.array(keys), np.array(values)
