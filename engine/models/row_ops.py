"""Row-wise operations between the matrices: norms, the heads and their rotation, the gate of the MLP.

On CPU each is one of metal's kernels, with one fixed order of arithmetic per row; on Metal they
are MLX's own operations.
"""

from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

import metal


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The heads of an attention layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def query_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim


class HeadNorm(Protocol):
    """A norm of each query and key head, with a weight [H_q + H_kv, D]."""

    @property
    def weight(self) -> mx.array: ...

    @property
    def eps(self) -> float: ...

    def __call__(self, x: mx.array) -> mx.array: ...


class Rotation(Protocol):
    """Turns the heads of one step, the same for all layers."""

    def __call__(
        self, qkv: mx.array, heads: HeadShape, norm: HeadNorm | None
    ) -> tuple[mx.array, mx.array, mx.array]:
        """`qkv` [T, (H_q + 2 H_kv) D] -> q [T, H_q, D], k and v [T, H_kv, D].

        The heads of q and k are normed if there is a norm, then each pair (x[i], x[i + D/2]) is
        turned by its angle.
        """
        ...


class RowOps(Protocol):
    """The operations of one device. Rows are tokens; no row sees another."""

    def rms_norm(self, x: mx.array, weight: mx.array, eps: float) -> mx.array:
        """x * weight / sqrt(mean(x^2) + eps) over the last axis (arXiv 1910.07467).

        x [T, D] with weight [D], or heads [T, H, D] with weight [H, D].
        """
        ...

    def rotation(
        self, positions: mx.array, inverse_frequencies: mx.array, factor: float
    ) -> "Rotation":
        """For tokens at `positions` int32 [T]; frequencies float32 [D/2]; `factor` scales the result."""
        ...

    def silu_mul(self, gate_up: mx.array) -> mx.array:
        """silu(gate) * up (arXiv 2002.05202), from both side by side: [T, 2 I] -> [T, I]."""
        ...


@dataclass(frozen=True, slots=True)
class CPURotation:
    """cos and sin float32 [T, D/2]."""

    cos: mx.array
    sin: mx.array

    def __call__(
        self, qkv: mx.array, heads: HeadShape, norm: HeadNorm | None
    ) -> tuple[mx.array, mx.array, mx.array]:
        return metal.rotary_heads(
            qkv,
            self.cos,
            self.sin,
            num_heads=heads.num_heads,
            num_kv_heads=heads.num_kv_heads,
            norm_weight=None if norm is None else norm.weight,
            norm_eps=0.0 if norm is None else norm.eps,
        )


@dataclass(frozen=True, slots=True)
class MLXRotation:
    """positions int32 [T], wavelengths / 2 pi float32 [D/2]."""

    positions: mx.array
    periods: mx.array
    factor: float

    def __call__(
        self, qkv: mx.array, heads: HeadShape, norm: HeadNorm | None
    ) -> tuple[mx.array, mx.array, mx.array]:
        parts = qkv.reshape(len(qkv), -1, heads.head_dim)  # [T, H_q + 2 H_kv, D]
        qk, v = mx.split(parts, [heads.num_heads + heads.num_kv_heads], axis=1)
        turned = self._turn(qk if norm is None else norm(qk))
        q, k = mx.split(turned, [heads.num_heads], axis=1)
        return q, k, v

    def _turn(self, heads: mx.array) -> mx.array:
        """[T, H, D] -> the same shape."""
        # each token is a batch of its own, of one position: MLX takes an offset for each
        turned = mx.fast.rope(
            heads[:, :, None],
            heads.shape[-1],
            traditional=False,
            base=None,
            scale=1.0,
            offset=self.positions,
            freqs=self.periods,
        )[:, :, 0]
        return turned if self.factor == 1.0 else turned * self.factor


class CPURowOps:
    """float32 in, float32 out."""

    def rms_norm(self, x: mx.array, weight: mx.array, eps: float) -> mx.array:
        return metal.rms_norm(x, weight, eps)

    def rotation(
        self, positions: mx.array, inverse_frequencies: mx.array, factor: float
    ) -> "Rotation":
        angles = positions[:, None] * inverse_frequencies  # [T, D/2]
        cos, sin = mx.cos(angles), mx.sin(angles)
        if factor != 1.0:
            cos, sin = cos * factor, sin * factor
        return CPURotation(cos, sin)

    def silu_mul(self, gate_up: mx.array) -> mx.array:
        return metal.silu_mul(gate_up)


class MLXRowOps:
    """Any float type in, the same out."""

    def rms_norm(self, x: mx.array, weight: mx.array, eps: float) -> mx.array:
        if weight.ndim == 1:
            return mx.fast.rms_norm(x, weight, eps)
        return mx.fast.rms_norm(x, None, eps) * weight

    def rotation(
        self, positions: mx.array, inverse_frequencies: mx.array, factor: float
    ) -> "Rotation":
        return MLXRotation(positions, 1.0 / inverse_frequencies, factor)

    def silu_mul(self, gate_up: mx.array) -> mx.array:
        gate, up = mx.split(gate_up, 2, axis=-1)
        return gate * mx.sigmoid(gate) * up
