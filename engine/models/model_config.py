"""What a checkpoint says of its architecture, whatever its format."""

from dataclasses import dataclass

from engine.models.rope import Rope


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The sizes of a decoder. `windows` holds each layer's sliding window in tokens, or None."""

    model_type: str
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_positions: int
    rms_norm_eps: float
    rope: Rope
    tied_embeddings: bool
    windows: tuple[int | None, ...]
    eos_token_ids: frozenset[int]
