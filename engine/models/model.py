"""The seam between the engine and a model: what a model is, and what it is given.

A model knows layers and weights. It knows no sequences, no pages and no cache: `Attend`, given by
the caller at each step, keeps K and V and computes attention.
"""

from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The sizes and limits of a loaded model.

    `max_context` is in tokens, rope scaling included. `eos_token_ids` unites every source of the
    checkpoint. `dtype` is that of the hidden states, q, k and v: float32 on CPU, the checkpoint's
    on Metal.
    """

    architecture: str
    num_layers: int
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    max_context: int
    eos_token_ids: frozenset[int]
    dtype: mx.Dtype


class Attend(Protocol):
    """Attention of one step's flat batch of T tokens over everything their sequences hold."""

    def __call__(  # noqa: PLR0913 - one attention call has this many independent knobs
        self,
        layer: int,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        *,
        scale: float,
        window: int | None = None,
        soft_cap: float | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        """Keeps k and v [T, H_kv, D] as `layer`'s and returns q's attention [T, H_q, D].

        Causal within each sequence. With `window` w a token sees itself and the w - 1 tokens
        before it.
        """
        ...


class CausalLM(Protocol):
    """A decoder that turns token ids into hidden states, and hidden states into logits."""

    @property
    def spec(self) -> ModelSpec: ...

    def __call__(self, token_ids: mx.array, positions: mx.array, attend: Attend) -> mx.array:
        """The last hidden states [T, hidden] of a flat batch.

        `token_ids` int32 [T]; `positions` int32 [T] counts from 0 within each token's sequence.
        """
        ...

    def logits(self, hidden: mx.array) -> mx.array:
        """Float32 logits [R, vocab] of the rows [R, hidden] that need them."""
        ...
