"""A checkpoint in one GGUF file."""

from pathlib import Path

import mlx.core as mx
import numpy as np

from engine.errors import ModelError
from engine.models.gguf_config import parse_metadata
from engine.models.gguf_file import GGUFFile, GGUFTensor
from engine.models.gguf_names import hf_name
from engine.models.gguf_quants import decode, supported_types
from engine.models.model_config import ModelConfig
from engine.models.tensors import DenseWeight, QuantizedWeight, Weight

EMBEDDING = "token_embd.weight"
OUTPUT = "output.weight"
ROPE_DIVISORS = "rope_freqs.weight"


class GGUFCheckpoint:
    """Implements `Checkpoint`. A tensor is decoded when it is read, and not kept."""

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._file = GGUFFile(path)
        if self._file.metadata.get("split.count", 0) not in (0, 1):
            raise ModelError(
                f"{path}: GGUF files split in parts are not supported; merge them first"
            )
        self._tensors = {
            hf_name(tensor.name): tensor
            for tensor in self._file.tensors.values()
            if tensor.name != ROPE_DIVISORS
        }
        self.config: ModelConfig = self._read_config()

    @property
    def dtype(self) -> mx.Dtype:
        dtypes = {"F32": mx.float32, "BF16": mx.bfloat16}
        return dtypes.get(self._file.tensors[EMBEDDING].kind.name, mx.float16)

    def names(self) -> frozenset[str]:
        return frozenset(self._tensors)

    def read(self, name: str) -> Weight:
        weight, config = self._decode(self._tensors[name]), self.config
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_kv_heads}
        module = name.split(".")[-2]
        interleaved = config.model_type == "llama" and module in heads
        if interleaved and weight.shape[0] == heads[module] * config.head_dim:
            return _with_split_halves(weight, heads[module])
        return weight

    def _read_config(self) -> ModelConfig:
        tensors = self._file.tensors
        if EMBEDDING not in tensors:
            raise ModelError(f"{self.label}: tensor {EMBEDDING} is missing")
        return parse_metadata(
            self._file.metadata,
            self.label,
            vocab_size=tensors[EMBEDDING].shape[0],
            tied_embeddings=OUTPUT not in tensors,
            rope_divisors=self._rope_divisors(),
        )

    def _decode(self, tensor: GGUFTensor) -> Weight:
        raw = mx.array(np.frombuffer(self._file.read(tensor), np.uint8))
        weight = decode(tensor.kind, raw, tensor.shape)
        if weight is None:
            raise ModelError(
                f"{self.label}: tensor {tensor.name} has GGUF type {tensor.kind.name}; "
                f"supported: {supported_types()}"
            )
        return weight

    def _rope_divisors(self) -> list[float] | None:
        tensor = self._file.tensors.get(ROPE_DIVISORS)
        if tensor is None:
            return None
        weight = self._decode(tensor)
        assert isinstance(weight, DenseWeight)  # quantised weights have two dimensions
        return [float(value) for value in weight.values]


def _with_split_halves(weight: Weight, heads: int) -> Weight:
    """Undoes GGUF's order of Llama's q and k rows: even rows of a head come first, then odd."""
    if isinstance(weight, DenseWeight):
        return DenseWeight(_split_halves(weight.values, heads))
    return QuantizedWeight(
        _split_halves(weight.codes, heads),
        _split_halves(weight.scales, heads),
        _split_halves(weight.biases, heads),
        weight.bits,
        weight.group_size,
    )


def _split_halves(rows: mx.array, heads: int) -> mx.array:
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])  # [H, D/2, 2, ...]
    return pairs.swapaxes(1, 2).reshape(rows.shape)
