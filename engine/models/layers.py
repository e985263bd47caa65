"""The layers that all families share.

Everything works on the rows of one flat batch [T, ...]; only `Attend` sees more than one row.
"""

from dataclasses import dataclass

import mlx.core as mx

from engine.models.linear import Linear
from engine.models.model import Attend
from engine.models.norm import RMSNorm
from engine.models.rope import Rope
from engine.models.row_ops import HeadShape, Rotation, RowOps


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
class Attention:
    """Grouped-query attention of layer `index`, behind a norm; `qkv` gives q, k and v side by side."""

    index: int
    heads: HeadShape
    norm: RMSNorm
    qkv: Linear
    output: Linear
    head_norm: RMSNorm | None  # of the query and key heads together, [H_q + H_kv, D]
    window: int | None

    def __call__(self, hidden: mx.array, rotation: Rotation, attend: Attend) -> mx.array:
        """[T, hidden] -> the same shape, the residual added."""
        qkv = self.qkv(hidden, norm=self.norm)  # [T, (H_q + 2 H_kv) D]
        q, k, v = rotation(qkv, self.heads, self.head_norm)
        scale = self.heads.head_dim**-0.5
        out = attend(self.index, q, k, v, scale=scale, window=self.window)  # [T, H_q, D]
        return self.output(out.reshape(len(hidden), -1), residual=hidden)


@dataclass(frozen=True, slots=True)
class SwiGLU:
    """down(silu(gate(x)) * up(x)) (arXiv 2002.05202) behind a norm; `gate_up` gives both side by side."""

    norm: RMSNorm
    gate_up: Linear
    down: Linear
    ops: RowOps

    def __call__(self, hidden: mx.array) -> mx.array:
        """[T, hidden] -> the same shape, the residual added."""
        gate_up = self.gate_up(hidden, norm=self.norm)  # [T, 2 I]
        return self.down(self.ops.silu_mul(gate_up), residual=hidden)


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention and MLP; each norms what it reads and adds to it."""

    attention: Attention
    mlp: SwiGLU

    def __call__(self, hidden: mx.array, rotation: Rotation, attend: Attend) -> mx.array:
        """[T, hidden] -> [T, hidden]."""
        return self.mlp(self.attention(hidden, rotation, attend))
