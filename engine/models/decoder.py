"""A decoder: embedding, layers, norm, output layer. Implements `CausalLM`."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.models.layers import DecoderLayer, RotaryEmbedding
from engine.models.linear import Linear, Matrix
from engine.models.model import Attend, ModelSpec
from engine.models.norm import RMSNorm


@dataclass(frozen=True, slots=True)
class Decoder:
    """The stack that every family here is; families differ in their layers."""

    spec: ModelSpec
    embedding: Matrix
    layers: Sequence[DecoderLayer]
    rotary: RotaryEmbedding
    norm: RMSNorm
    head: Linear

    def __call__(self, token_ids: mx.array, positions: mx.array, attend: Attend) -> mx.array:
        """See `CausalLM`."""
        hidden = self.embedding.rows(token_ids)  # [T, hidden]
        rotation = self.rotary(positions)
        for layer in self.layers:
            hidden = layer(hidden, rotation, attend)
        return self.norm(hidden)

    def logits(self, hidden: mx.array) -> mx.array:
        """See `CausalLM`."""
        return self.head(hidden).astype(mx.float32)
