"""A checkpoint in one GGUF file."""

from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.models.gguf_config import parse_metadata
from engine.models.gguf_file import GGUFFile, GGUFTensor
from engine.models.gguf_names import hf_name
from engine.models.gguf_quants import affine_decoder, dense_decoder, supported_types
from engine.models.model_config import ModelConfig
from engine.models.tensors import DenseWeight, QuantizedWeight, Weight

EMBEDDING = "token_embd.weight"
OUTPUT = "output.weight"
ROPE_DIVISORS = "rope_freqs.weight"
GROUP_SIZE = 32


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
        weight = self._decode(self._tensors[name])
        if self.config.model_type != "llama":
            return weight
        if ".q_proj." in name:
            return _with_split_halves(weight, self.config.num_attention_heads)
        if ".k_proj." in name:
            return _with_split_halves(weight, self.config.num_kv_heads)
        return weight

    def _read_config(self) -> ModelConfig:
        tensors = self._file.tensors
        if EMBEDDING not in tensors:
            raise ModelError(f"{self.label}: tensor {EMBEDDING} is missing")
        divisors = tensors.get(ROPE_DIVISORS)
        return parse_metadata(
            self._file.metadata,
            self.label,
            vocab_size=tensors[EMBEDDING].shape[0],
            tied_embeddings=OUTPUT not in tensors,
            rope_divisors=None if divisors is None else self._floats(divisors).values.tolist(),
        )

    def _decode(self, tensor: GGUFTensor) -> Weight:
        affine = affine_decoder(tensor.kind)
        if affine is None:
            return self._floats(tensor)
        blocks = affine(self._blocks(tensor))
        scales, biases = mx.array(blocks.scales), mx.array(blocks.biases)
        return QuantizedWeight(mx.array(blocks.words()), scales, biases, blocks.bits, GROUP_SIZE)

    def _floats(self, tensor: GGUFTensor) -> DenseWeight:
        raw = np.frombuffer(self._file.read(tensor), np.uint8)
        kind = tensor.kind.name
        if kind in ("F32", "F16"):
            values = raw.view(np.float32 if kind == "F32" else np.float16)
            return DenseWeight(mx.array(values.reshape(tensor.shape)))
        if kind == "BF16":
            return DenseWeight(
                mx.array(raw.view(np.uint16).reshape(tensor.shape)).view(mx.bfloat16)
            )
        decode = dense_decoder(tensor.kind)
        if decode is None:
            raise ModelError(
                f"{self.label}: tensor {tensor.name} has GGUF type {kind}; "
                f"supported: {supported_types()}"
            )
        return DenseWeight(mx.array(decode(self._blocks(tensor))))

    def _blocks(self, tensor: GGUFTensor) -> NDArray[np.uint8]:
        """[N, K / block_size, block_bytes]."""
        raw = np.frombuffer(self._file.read(tensor), np.uint8)
        return raw.reshape(tensor.shape[0], -1, tensor.kind.block_bytes)


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
