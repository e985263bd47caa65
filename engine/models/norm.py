"""A norm with its weight, for rows or for heads."""

from dataclasses import dataclass

import mlx.core as mx

from engine.models.row_ops import RowOps


@dataclass(frozen=True, slots=True)
class RMSNorm:
    """A norm over the last axis: weight [D], or [H, D] for heads that are normed apart."""

    weight: mx.array
    eps: float
    ops: RowOps

    def __call__(self, x: mx.array) -> mx.array:
        """[T, D] or [T, H, D] -> the same shape."""
        return self.ops.rms_norm(x, self.weight, self.eps)
