"""The layers that all families share.

Everything works on the rows of one flat batch [T, ...]; only `Attend` sees more than one row.
"""

from dataclasses import dataclass

import mlx.core as mx

from engine.models.linear import Linear
from engine.models.model import Attend
from engine.models.rope import Rope
from engine.models.row_ops import Rotation, RowOps


@dataclass(frozen=True, slots=True)
class RMSNorm:
    """A norm over the last axis: weight [D], or [H, D] for heads that are normed apart."""

    weight: mx.array
    eps: float
    ops: RowOps

    def __call__(self, x: mx.array) -> mx.array:
        """[T, D] or [T, H, D] -> the same shape."""
        return self.ops.rms_norm(x, self.weight, self.eps)


class RotaryEmbedding:
    """Makes a step's `Rotation` once, for all layers."""

    def __init__(self, rope: Rope, ops: RowOps) -> None:
        self._inverse_frequencies = mx.array(rope.inverse_frequencies())  # float32 [D/2]
        self._factor = rope.attention_factor()
        self._ops = ops
        mx.eval(self._inverse_frequencies)

    def __call__(self, positions: mx.array) -> Rotation:
        """`positions` int32 [T]."""
        return self._ops.rotation(positions, self._inverse_frequencies, self._factor)


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
    head_norm: RMSNorm | None  # of the query and key heads together, [H_q + H_kv, D]
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
    ops: RowOps

    def __call__(self, x: mx.array) -> mx.array:
        """[T, hidden] -> [T, hidden]."""
        return self.down(self.ops.silu_mul(self.gate_up(x)))


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
