"""The layers that all families share.

Everything works on the rows of one flat batch [T, ...]; only `Attend` sees more than one row.
"""

from dataclasses import dataclass

import mlx.core as mx

from engine.models.linear import Linear
from engine.models.model import Attend
from engine.models.rope import Rope


class RMSNorm:
    """x * weight / sqrt(mean(x^2) + eps) over the last axis (arXiv 1910.07467)."""

    def __init__(self, weight: mx.array, eps: float) -> None:
        self._weight = weight
        self._eps = eps

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self._weight, self._eps)


class HeadNorm:
    """RMS norms of the query and key heads of one layer, as one operation.

    `q_weight` and `k_weight` [D] are shared by all heads of their kind.
    """

    def __init__(
        self, q_weight: mx.array, k_weight: mx.array, num_heads: int, num_kv_heads: int, eps: float
    ) -> None:
        queries = mx.broadcast_to(q_weight, (num_heads, *q_weight.shape))
        keys = mx.broadcast_to(k_weight, (num_kv_heads, *k_weight.shape))
        self._weight = mx.concatenate([queries, keys])  # [H_q + H_kv, D]
        self._eps = eps
        mx.eval(self._weight)

    def __call__(self, qk: mx.array) -> mx.array:
        """[T, H_q + H_kv, D] -> the same shape."""
        return mx.fast.rms_norm(qk, None, self._eps) * self._weight


@dataclass(frozen=True, slots=True)
class Rotation:
    """What rotates the heads of one step: cos [T, 1, 1, D/2], signed_sin [T, 1, 2, D/2]."""

    cos: mx.array
    signed_sin: mx.array

    def __call__(self, heads: mx.array) -> mx.array:
        """[T, H, D] -> the same shape, each pair (x[i], x[i + D/2]) turned by its angle."""
        halves = heads.reshape(*heads.shape[:-1], 2, -1)  # [T, H, 2, D/2]
        turned = halves * self.cos + halves[:, :, ::-1] * self.signed_sin
        return turned.reshape(heads.shape).astype(heads.dtype)


class RotaryEmbedding:
    """Makes a step's `Rotation` once, for all layers."""

    def __init__(self, rope: Rope) -> None:
        self._inverse_frequencies = mx.array(rope.inverse_frequencies())  # float32 [D/2]
        self._factor = rope.attention_factor()
        mx.eval(self._inverse_frequencies)

    def __call__(self, positions: mx.array) -> Rotation:
        """`positions` int32 [T]."""
        angles = positions[:, None, None, None] * self._inverse_frequencies  # [T, 1, 1, D/2]
        cos, sin = mx.cos(angles), mx.sin(angles)
        if self._factor != 1.0:
            cos, sin = cos * self._factor, sin * self._factor
        return Rotation(cos, mx.concatenate([-sin, sin], axis=2))


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


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention of layer `index`; `qkv` gives q, k and v side by side."""

    index: int
    heads: HeadShape
    qkv: Linear
    output: Linear
    head_norm: HeadNorm | None
    window: int | None

    def __call__(self, x: mx.array, rotation: Rotation, attend: Attend) -> mx.array:
        """[T, hidden] -> [T, hidden]."""
        shape = self.heads
        qkv = self.qkv(x).reshape(len(x), -1, shape.head_dim)  # [T, H_q + 2 H_kv, D]
        qk, v = mx.split(qkv, [shape.num_heads + shape.num_kv_heads], axis=1)
        if self.head_norm is not None:
            qk = self.head_norm(qk)
        q, k = mx.split(rotation(qk), [shape.num_heads], axis=1)
        out = attend(self.index, q, k, v, scale=shape.head_dim**-0.5, window=self.window)
        return self.output(out.reshape(len(x), -1))


@dataclass(frozen=True, slots=True)
class SwiGLU:
    """down(silu(gate(x)) * up(x)) (arXiv 2002.05202); `gate_up` gives both side by side."""

    gate_up: Linear
    down: Linear

    def __call__(self, x: mx.array) -> mx.array:
        """[T, hidden] -> [T, hidden]."""
        gate, up = mx.split(self.gate_up(x), 2, axis=-1)
        return self.down(gate * mx.sigmoid(gate) * up)


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention and MLP, each behind a norm and beside a residual."""

    attention_norm: RMSNorm
    attention: Attention
    mlp_norm: RMSNorm
    mlp: SwiGLU

    def __call__(self, hidden: mx.array, rotation: Rotation, attend: Attend) -> mx.array:
        """[T, hidden] -> [T, hidden]."""
        hidden = hidden + self.attention(self.attention_norm(hidden), rotation, attend)
        return hidden + self.mlp(self.mlp_norm(hidden))
