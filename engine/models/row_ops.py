"""Row-wise operations between the matrices: norms, rotation, the gate of the MLP.

On CPU each is one of metal's kernels, with one fixed order of arithmetic per row; on Metal they
are MLX's own operations.
"""

from typing import Protocol

import mlx.core as mx

import metal


class RowOps(Protocol):
    """The operations of one device. Rows are tokens; no row sees another."""

    def rms_norm(self, x: mx.array, weight: mx.array, eps: float) -> mx.array:
        """x * weight / sqrt(mean(x^2) + eps) over the last axis (arXiv 1910.07467).

        x [T, D] with weight [D], or heads [T, H, D] with weight [H, D].
        """
        ...

    def rotary(self, heads: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
        """Turns each pair (x[i], x[i + D/2]) of heads [T, H, D]; cos and sin float32 [T, D/2]."""
        ...

    def silu_mul(self, gate_up: mx.array) -> mx.array:
        """silu(gate) * up (arXiv 2002.05202), from both side by side: [T, 2 I] -> [T, I]."""
        ...


class CPURowOps:
    """float32 in, float32 out."""

    def rms_norm(self, x: mx.array, weight: mx.array, eps: float) -> mx.array:
        return metal.rms_norm(x, weight, eps)

    def rotary(self, heads: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
        return metal.rotary(heads, cos, sin)

    def silu_mul(self, gate_up: mx.array) -> mx.array:
        return metal.silu_mul(gate_up)


class MLXRowOps:
    """Any float type in, the same out."""

    def rms_norm(self, x: mx.array, weight: mx.array, eps: float) -> mx.array:
        if weight.ndim == 1:
            return mx.fast.rms_norm(x, weight, eps)
        return mx.fast.rms_norm(x, None, eps) * weight

    def rotary(self, heads: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
        first, second = mx.split(heads, 2, axis=-1)
        cos, sin = cos[:, None], sin[:, None]  # [T, 1, D/2]
        turned = [first * cos - second * sin, second * cos + first * sin]
        return mx.concatenate(turned, axis=-1).astype(heads.dtype)

    def silu_mul(self, gate_up: mx.array) -> mx.array:
        gate, up = mx.split(gate_up, 2, axis=-1)
        return gate * mx.sigmoid(gate) * up
