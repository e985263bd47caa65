"""Tiny random GGUF files, twins of the checkpoints in checkpoints.py.

    tiny_gguf(folder / "tiny.gguf")                                   Llama, all F32
    tiny_gguf(path, TinyModel("qwen3"), quantization="Q8_0")          matrices Q8_0, norms F32
    tiny_gguf(path, types={"token_embd.weight": "Q8_0"}, quantization="Q4_1")

`tiny_gguf(path, model)` holds the weights of `write_checkpoint(folder, model)` before quantisation.
"""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

from tests.support.checkpoints import TinyModel, random_tensors
from tests.support.tiny_tokenizer import (
    CHAT_TEMPLATE,
    END_OF_TEXT_ID,
    SPECIAL_TOKENS,
    TURN_END_ID,
    TURN_START_ID,
    merges,
    vocabulary,
)

GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tiny_gguf(  # noqa: PLR0913 - each says another thing of the file
    path: Path,
    model: TinyModel | None = None,
    *,
    quantization: str = "F32",
    types: Mapping[str, str] | None = None,
    metadata: Mapping[str, object] | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Writes a GGUF file; `types` by GGUF tensor name override `quantization` (matrices only).

    `metadata` adds or replaces keys (str, float, int and bool values), `tensors` adds F32 tensors.
    A type that the gguf package cannot write is filled with zero bytes.
    """
    model = model or TinyModel("llama")
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, model.model_type)
    _write_shape(writer, model)
    _write_tokenizer(writer)
    for key, value in (metadata or {}).items():
        _add(writer, key, value)
    for hf_name, value in random_tensors(model):
        name = gguf_name(hf_name)
        wanted = (types or {}).get(name, quantization if value.ndim == 2 else "F32")
        _write_tensor(writer, name, _as_stored(model, hf_name, value), wanted)
    for name, value in (tensors or {}).items():
        writer.add_tensor(name, value.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_name(hf_name: str) -> str:
    """The GGUF name of a Hugging Face parameter."""
    module, _, kind = hf_name.rpartition(".")
    if module in TOP_NAMES:
        return f"{TOP_NAMES[module]}.{kind}"
    _, _, layer, rest = module.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest]}.{kind}"


def interleaved_rows(value: np.ndarray, heads: int) -> np.ndarray:
    """Llama's q/k rows as GGUF has them: the two halves of each head alternate."""
    halves = value.reshape(heads, 2, -1, *value.shape[1:])  # [H, 2, D/2, ...]
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(value.shape))


def _as_stored(model: TinyModel, hf_name: str, value: np.ndarray) -> np.ndarray:
    if model.model_type == "llama" and "q_proj" in hf_name:
        return interleaved_rows(value, model.num_heads)
    if model.model_type == "llama" and "k_proj" in hf_name:
        return interleaved_rows(value, model.num_kv_heads)
    return value


def _write_tensor(writer: gguf.GGUFWriter, name: str, value: np.ndarray, type_name: str) -> None:
    kind = gguf.GGMLQuantizationType[type_name]
    try:
        data = gguf.quantize(value, kind)
    except NotImplementedError:
        data = np.zeros(gguf.quant_shape_to_byte_shape(value.shape, kind), np.uint8)
    writer.add_tensor(name, data, raw_dtype=kind)


def _write_shape(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    writer.add_block_count(model.num_layers)
    writer.add_context_length(model.max_position_embeddings)
    writer.add_embedding_length(model.hidden_size)
    writer.add_feed_forward_length(model.intermediate_size)
    writer.add_head_count(model.num_heads)
    writer.add_head_count_kv(model.num_kv_heads)
    writer.add_key_length(model.head_dim)
    writer.add_value_length(model.head_dim)
    writer.add_rope_dimension_count(model.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(model.vocab_size)


def _write_tokenizer(writer: gguf.GGUFWriter) -> None:
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([control if token in SPECIAL_TOKENS else normal for token in tokens])
    writer.add_token_merges([f"{left} {right}" for left, right in merges()])
    writer.add_bos_token_id(TURN_START_ID)
    writer.add_eos_token_id(TURN_END_ID)
    writer.add_pad_token_id(END_OF_TEXT_ID)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    kinds = {bool: "BOOL", int: "UINT32", float: "FLOAT32", str: "STRING"}
    for keys in writer.kv_data:
        keys.pop(key, None)  # the writer refuses a key that is there
    writer.add_key_value(key, value, gguf.GGUFValueType[kinds[type(value)]])
