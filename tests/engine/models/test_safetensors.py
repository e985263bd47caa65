"""Checkpoints in safetensors: float types, shards, MLX's quantisation."""

import json

import mlx.core as mx
import pytest

from engine.errors import ModelError
from engine.models import load_model
from tests.support.checkpoints import Quantization, tiny_llama, tiny_qwen2, tiny_qwen3
from tests.support.dense_attend import DenseAttend

TEXT = [5, 90, 33, 200, 7, 12, 64, 128, 300, 9]


def logits(path):
    """Float32 logits [T, vocab] of a short text."""
    model = load_model(path).model
    attend = DenseAttend()
    attend.row_lengths = [len(TEXT)]
    return model.logits(model(mx.array(TEXT), mx.arange(len(TEXT)), attend))


def close(a, b, tolerance=2e-5):
    return mx.allclose(a, b, rtol=tolerance, atol=tolerance).item()


def rewrite(folder, change):
    """Applies `change` to the tensors of a folder with one safetensors file."""
    file = str(folder / "model.safetensors")
    tensors = {name: mx.array(value) for name, value in mx.load(file).items()}
    mx.eval(tensors)
    mx.save_safetensors(file, change(tensors))


def configure(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_the_spec_tells_the_sizes_of_the_checkpoint(tmp_path):
    loaded = load_model(tiny_qwen3(tmp_path))
    spec = loaded.spec
    assert loaded.tokenizer_path == tmp_path
    assert spec is loaded.model.spec
    assert (spec.architecture, spec.num_layers, spec.hidden_size) == ("qwen3", 2, 64)
    assert (spec.num_attention_heads, spec.num_kv_heads, spec.head_dim) == (4, 2, 64)
    assert (spec.vocab_size, spec.max_context, spec.dtype) == (311, 512, mx.float32)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_weights_are_computed_in_float32_as_they_stand(tmp_path, dtype):
    halves = tiny_llama(tmp_path / "halves", dtype=dtype)
    floats = tiny_llama(tmp_path / "floats", dtype=dtype)
    rewrite(floats, lambda tensors: {n: t.astype(mx.float32) for n, t in tensors.items()})
    assert close(logits(halves), logits(floats))


@pytest.mark.parametrize("tied", [True, False])
def test_shards_are_one_model(tmp_path, tied):
    whole = tiny_qwen3(tmp_path / "whole", tied=tied)
    shards = tiny_qwen3(tmp_path / "shards", tied=tied, shards=3)
    assert mx.array_equal(logits(whole), logits(shards))


def test_an_untied_output_layer_is_its_own(tmp_path):
    folder = tiny_llama(tmp_path, tied=False)
    before = logits(folder)
    rewrite(folder, lambda tensors: tensors | {"lm_head.weight": 2 * tensors["lm_head.weight"]})
    assert close(logits(folder), 2 * before)


def test_an_output_layer_beside_tied_embeddings_is_passed_over(tmp_path):
    folder = tiny_llama(tmp_path)
    before = logits(folder)
    rewrite(folder, lambda t: t | {"lm_head.weight": mx.zeros_like(t["model.embed_tokens.weight"])})
    assert mx.array_equal(logits(folder), before)


@pytest.mark.parametrize("group_size", [32, 64])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_quantised_weights_give_the_logits_of_the_dequantised_ones(tmp_path, bits, group_size):
    quantization = Quantization(bits=bits, group_size=group_size)
    quantised = tiny_llama(tmp_path / "quantised", quantization=quantization, tied=False)
    dequantised = tiny_llama(tmp_path / "dequantised", quantization=quantization, tied=False)
    rewrite(dequantised, lambda tensors: dequantise(tensors, quantization))
    configure(dequantised, quantization=None)
    assert close(logits(quantised), logits(dequantised))


@pytest.mark.parametrize("make", [tiny_llama, tiny_qwen2, tiny_qwen3])
def test_each_layer_may_have_bits_of_its_own(tmp_path, make):
    own = {
        "model.embed_tokens": 8,
        "model.layers.0.self_attn.v_proj": 8,
        "model.layers.1.self_attn.k_proj": 3,
        "model.layers.1.mlp.up_proj": 6,
    }
    quantization = Quantization(bits=4, bits_by_module=own)
    quantised = make(tmp_path / "quantised", quantization=quantization)
    dequantised = make(tmp_path / "dequantised", quantization=quantization)
    rewrite(dequantised, lambda tensors: dequantise(tensors, quantization))
    configure(dequantised, quantization=None)
    assert close(logits(quantised), logits(dequantised))


def test_a_module_may_stay_unquantised(tmp_path):
    quantization = Quantization(bits=4)
    name = "model.layers.0.self_attn.k_proj"
    folder = tiny_llama(tmp_path / "mixed", quantization=quantization)
    rewrite(folder, lambda t: dequantise(t, quantization, only=name))
    configure(folder, quantization=quantization.config() | {name: False})
    whole = tiny_llama(tmp_path / "whole", quantization=quantization)
    assert close(logits(folder), logits(whole))


def dequantise(tensors, quantization, only=None):
    done = {}
    for name, value in tensors.items():
        module, _, kind = name.rpartition(".")
        if module + ".scales" not in tensors or only not in (None, module) or kind == "bias":
            done[name] = value
        elif kind == "weight":
            scales, biases = tensors[module + ".scales"], tensors[module + ".biases"]
            bits = quantization.bits_by_module.get(module, quantization.bits)
            done[name] = mx.dequantize(value, scales, biases, quantization.group_size, bits)
    return done


def test_a_bias_counts_where_the_checkpoint_has_one(tmp_path):
    folder = tiny_llama(tmp_path)
    before = logits(folder)
    rewrite(folder, lambda t: t | {"model.layers.0.self_attn.q_proj.bias": mx.ones(256)})
    assert not close(logits(folder), before)


def test_qwen2_without_its_biases_is_refused(tmp_path):
    folder = tiny_qwen2(tmp_path)
    name = "model.layers.1.self_attn.k_proj.bias"
    rewrite(folder, lambda tensors: {n: t for n, t in tensors.items() if n != name})
    with pytest.raises(ModelError, match=f"tensor {name} is missing"):
        load_model(folder)


def test_end_tokens_come_from_every_file_that_names_some(tmp_path):
    folder = tiny_llama(tmp_path, config={"eos_token_id": [10, 11]})
    (folder / "generation_config.json").write_text('{"eos_token_id": 12}')
    assert load_model(folder).spec.eos_token_ids == {10, 11, 12, 2}  # 2: the tokenizer's
    (folder / "tokenizer_config.json").write_text('{"eos_token": {"content": "q"}}')
    assert load_model(folder).spec.eos_token_ids == {10, 11, 12, 116}  # a word of the vocabulary
    for name in ("generation_config.json", "tokenizer_config.json", "tokenizer.json"):
        (folder / name).unlink()
    assert load_model(folder).spec.eos_token_ids == {10, 11}


@pytest.mark.parametrize(
    "text",
    [
        '{"added_tokens": [1, {"id": 2}], "model": 3}',
        '{"added_tokens": [{"content": "<|im_end|>", "id": "k"}], "model": {"vocab": []}}',
    ],
)
def test_a_tokenizer_that_names_no_end_token_adds_none(tmp_path, text):
    folder = tiny_llama(tmp_path)
    (folder / "tokenizer.json").write_text(text)
    (folder / "generation_config.json").unlink()
    assert load_model(folder).spec.eos_token_ids == {2}  # config.json's
