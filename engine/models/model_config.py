"""What a checkpoint says of its architecture, whatever its format."""

from dataclasses import dataclass

from engine.errors import ModelError
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

    def checked(self, label: str) -> "ModelConfig":
        """This config; raises ModelError if its sizes do not fit together."""
        if self.num_attention_heads % self.num_kv_heads:
            raise ModelError(
                f"{label}: {self.num_attention_heads} num_attention_heads cannot share "
                f"{self.num_kv_heads} num_key_value_heads evenly"
            )
        if self.head_dim % 2:
            raise ModelError(f"{label}: head_dim {self.head_dim} must be even, to be rotated")
        return self
