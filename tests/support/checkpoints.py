"""Tiny random checkpoints, written in milliseconds: what servers and engines are tested with.

    tiny_llama(folder)                              two layers, float32, tied embeddings
    tiny_qwen3(folder, tied=False, shards=3)        q/k norms, own lm_head, a sharded index
    tiny_llama(folder, quantization=Quantization(bits=4, bits_by_module={"lm_head": 8}))

The same arguments give the same weights, on every machine. Each folder holds config.json,
generation_config.json, safetensors and a working byte-level BPE tokenizer with a chat template.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import numpy as np

from tests.support.tiny_tokenizer import (
    END_OF_TEXT_ID,
    TURN_END_ID,
    TURN_START_ID,
    vocabulary,
    write_tokenizer,
)

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


@dataclass(frozen=True)
class Quantization:
    """MLX quantisation of linear layers and embedding; `bits_by_module` (by path) overrides."""

    bits: int = 4
    group_size: int = 32
    bits_by_module: Mapping[str, int] = field(default_factory=dict)

    def config(self) -> dict[str, object]:
        overrides = {
            path: {"group_size": self.group_size, "bits": bits}
            for path, bits in self.bits_by_module.items()
        }
        return {"group_size": self.group_size, "bits": self.bits, "mode": "affine", **overrides}


@dataclass(frozen=True)
class TinyModel:
    """The shape of a tiny checkpoint. `config` adds or replaces keys of config.json."""

    model_type: str
    hidden_size: int = 64
    intermediate_size: int = 128
    num_layers: int = 2
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    max_position_embeddings: int = 512
    tied: bool = True
    dtype: str = "float32"
    shards: int = 1
    seed: int = 0
    quantization: Quantization | None = None
    config: Mapping[str, object] = field(default_factory=dict)

    @property
    def vocab_size(self) -> int:
        return len(vocabulary())


def tiny_llama(folder: Path, **overrides: object) -> Path:
    """Writes a tiny Llama checkpoint into `folder`; `overrides` are fields of `TinyModel`."""
    return write_checkpoint(folder, TinyModel("llama", **overrides))


def tiny_qwen2(folder: Path, **overrides: object) -> Path:
    """As `tiny_llama`, with q/k/v biases."""
    return write_checkpoint(folder, TinyModel("qwen2", **overrides))


def tiny_qwen3(folder: Path, **overrides: object) -> Path:
    """As `tiny_llama`, with q/k norms."""
    return write_checkpoint(folder, TinyModel("qwen3", **overrides))


def write_checkpoint(folder: Path, model: TinyModel) -> Path:
    """Writes config, generation config, weights and tokenizer; returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(hf_config(model), indent=1))
    generation = {"eos_token_id": [TURN_END_ID, END_OF_TEXT_ID], "bos_token_id": TURN_START_ID}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    write_tokenizer(folder)
    tensors = {}
    for name, value in random_tensors(model):
        array = mx.array(value).astype(getattr(mx, model.dtype))
        tensors.update(_quantized(name, array, model.quantization))
    _write_shards(folder, tensors, model.shards)
    return folder


def hf_config(model: TinyModel) -> dict[str, object]:
    """config.json of a checkpoint, in Hugging Face's keys."""
    values: dict[str, object] = {
        "model_type": model.model_type,
        "architectures": [ARCHITECTURES[model.model_type]],
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab_size,
        "max_position_embeddings": model.max_position_embeddings,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": model.tied,
        "torch_dtype": model.dtype,
        "bos_token_id": TURN_START_ID,
        "eos_token_id": TURN_END_ID,
    }
    if model.quantization is not None:
        values["quantization"] = model.quantization.config()
    return values | dict(model.config)


def random_tensors(model: TinyModel) -> Iterator[tuple[str, np.ndarray]]:
    """Every parameter by its Hugging Face name, float32.

    Scaled so that logits differ clearly and greedy text depends on what went before.
    """
    rng = np.random.default_rng(model.seed)
    for name, shape in parameter_shapes(model):
        noise = rng.standard_normal(shape, dtype=np.float32)
        if name.endswith("norm.weight"):
            yield name, 1 + 0.1 * noise
        elif name.endswith("bias"):
            yield name, 0.2 * noise
        elif name == "model.embed_tokens.weight":
            yield name, 0.3 * noise
        else:
            yield name, noise * np.float32(2 / np.sqrt(shape[-1]))


def parameter_shapes(model: TinyModel) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, width = model.hidden_size, model.intermediate_size
    yield "model.embed_tokens.weight", (model.vocab_size, hidden)
    for layer in range(model.num_layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,)
        for name, shape in _attention_shapes(model):
            yield prefix + "self_attn." + name, shape
        yield prefix + "post_attention_layernorm.weight", (hidden,)
        yield prefix + "mlp.gate_proj.weight", (width, hidden)
        yield prefix + "mlp.up_proj.weight", (width, hidden)
        yield prefix + "mlp.down_proj.weight", (hidden, width)
    yield "model.norm.weight", (hidden,)
    if not model.tied:
        yield "lm_head.weight", (model.vocab_size, hidden)


def _attention_shapes(model: TinyModel) -> Iterator[tuple[str, tuple[int, ...]]]:
    query, key = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
    for name, rows in (("q_proj", query), ("k_proj", key), ("v_proj", key)):
        yield name + ".weight", (rows, model.hidden_size)
        if model.model_type == "qwen2":
            yield name + ".bias", (rows,)
    yield "o_proj.weight", (model.hidden_size, query)
    if model.model_type == "qwen3":
        yield "q_norm.weight", (model.head_dim,)
        yield "k_norm.weight", (model.head_dim,)


def _quantized(
    name: str, array: mx.array, quantization: Quantization | None
) -> dict[str, mx.array]:
    module = name.removesuffix(".weight")
    if quantization is None or array.ndim < 2:
        return {name: array}
    bits = quantization.bits_by_module.get(module, quantization.bits)
    weight, scales, biases = mx.quantize(array, quantization.group_size, bits)
    return {name: weight, module + ".scales": scales, module + ".biases": biases}


def _write_shards(folder: Path, tensors: dict[str, mx.array], shards: int) -> None:
    if shards == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "mlx"})
        return
    names = list(tensors)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[shard::shards]}
        mx.save_safetensors(str(folder / file), part, {"format": "mlx"})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
