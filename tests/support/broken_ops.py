"""Paged operations with a mistake, for the tests of the self-test and of what follows from it."""

import mlx.core as mx

from metal.self_test import Batch, DeviceOps


class WrongAttention(DeviceOps):
    """Adds a little to one number."""

    def attention(self, batch: Batch, q: mx.array, pages: mx.array) -> mx.array:
        right = super().attention(batch, q, pages)
        return right + (mx.arange(right.size).reshape(right.shape) == 5)


class LostUpdate(DeviceOps):
    """Writes nothing."""

    def cache_update(self, pages: mx.array, *_: object) -> mx.array:
        return pages


class NaNAttention(DeviceOps):
    def attention(self, batch: Batch, q: mx.array, pages: mx.array) -> mx.array:
        return super().attention(batch, q, pages) * mx.nan


class NotCompiling(DeviceOps):
    def attention(self, *_: object) -> mx.array:
        raise RuntimeError("[metal::Device] Unable to build metal library from source\nerror: ...")
