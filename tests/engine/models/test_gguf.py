"""GGUF files: every tensor type against the gguf package, and whole models against their twins."""

import random

import gguf
import mlx.core as mx
import numpy as np
import pytest

from engine.errors import ModelError
from engine.models import load_model
from engine.models.gguf_file import GGUFFile
from engine.models.gguf_quants import decode
from engine.models.gguf_types import ggml_type
from engine.models.tensors import DenseWeight
from tests.support.checkpoints import TinyModel, write_checkpoint
from tests.support.dense_attend import DenseAttend
from tests.support.tiny_gguf import tiny_gguf

TEXT = [5, 90, 33, 200, 7, 12, 64, 128, 300, 9]
HALVES = {  # where the float16 scales of a block are
    **{"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,)},
    **{"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)},
}
ROUNDED = ("Q2_K", "Q3_K", "Q6_K")  # these become float16


def logits(path):
    """Float32 logits [T, vocab] of a short text."""
    model = load_model(path).model
    attend = DenseAttend()
    attend.row_lengths = [len(TEXT)]
    return model.logits(model(mx.array(TEXT), mx.arange(len(TEXT)), attend))


def random_blocks(name, rows, columns):
    """Random bytes of a tensor, with scales that are numbers: uint8 [rows, bytes]."""
    kind = gguf.GGMLQuantizationType[name]
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(len(name))
    blocks = rng.integers(0, 256, (rows, columns // block_size, block_bytes), dtype=np.uint8)
    for start in HALVES[name]:
        scales = rng.standard_normal((*blocks.shape[:2], 1)).astype(np.float16)
        blocks[..., start : start + 2] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


def floats(weight):
    """The values of a weight in float32."""
    if isinstance(weight, DenseWeight):
        return np.array(weight.values.astype(mx.float32))
    scales, biases = weight.scales.astype(mx.float32), weight.biases.astype(mx.float32)
    return np.array(mx.dequantize(weight.codes, scales, biases, weight.group_size, weight.bits))


@pytest.mark.parametrize("name", HALVES)
def test_every_block_format_holds_the_values_of_the_gguf_package(name):
    raw = random_blocks(name, rows=5, columns=512)
    kind = ggml_type(gguf.GGMLQuantizationType[name])
    got = floats(decode(kind, mx.array(raw.reshape(-1)), (5, 512)))
    expected = gguf.dequantize(raw, gguf.GGMLQuantizationType[name])
    tolerance = 2**-11 if name in ROUNDED else 0
    assert np.all(np.abs(got - expected) <= tolerance * np.abs(expected) + 1e-8 * (tolerance > 0))


def test_the_table_of_types_has_the_block_sizes_of_the_gguf_package():
    for kind, sizes in gguf.GGML_QUANT_SIZES.items():
        ours = ggml_type(kind)
        if ours is not None:
            assert (ours.name, ours.block_size, ours.block_bytes) == (kind.name, *sizes)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_float_file_gives_the_logits_of_its_safetensors_twin(tmp_path, family, tied):
    model = TinyModel(family, tied=tied)
    twin = write_checkpoint(tmp_path / "twin", model)
    assert mx.array_equal(logits(tiny_gguf(tmp_path / "m.gguf", model)), logits(twin))


@pytest.mark.parametrize("quantization", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_quantised_file_gives_the_logits_of_its_dequantised_twin(tmp_path, family, quantization):
    model = TinyModel(family, tied=False)
    types = {"token_embd.weight": "Q8_0", "output.weight": "F16"}
    file = tiny_gguf(tmp_path / "m.gguf", model, quantization=quantization, types=types)
    twin = write_checkpoint(tmp_path / "twin", model)
    tensors = {name: mx.array(value) for name, value in dequantised(file).items()}
    mx.save_safetensors(str(twin / "model.safetensors"), tensors)
    assert mx.allclose(logits(file), logits(twin), rtol=2e-5, atol=2e-5).item()


def dequantised(path):
    """The tensors under Hugging Face's names in float32, as the gguf package reads them."""
    reader = gguf.GGUFReader(path)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, 2)
    hf = {names.get_name(n): n for n in hf_names()}
    found = {}
    for tensor in reader.tensors:
        name = hf[tensor.name.removesuffix(".weight")] + ".weight"
        value = gguf.dequantize(tensor.data, tensor.tensor_type)
        heads = {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2])
        if heads and reader.fields["general.architecture"].contents() == "llama":
            value = value.reshape(heads, -1, 2, value.shape[-1]).swapaxes(1, 2).reshape(value.shape)
        found[name] = np.ascontiguousarray(value, dtype=np.float32)
    return found


def hf_names():
    parts = [f"self_attn.{kind}" for kind in ("q_proj", "k_proj", "v_proj", "o_proj")]
    parts += ["self_attn.q_norm", "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj"]
    parts += ["mlp.down_proj", "input_layernorm", "post_attention_layernorm"]
    layers = [f"model.layers.{layer}.{part}" for layer in range(2) for part in parts]
    return [*layers, "model.embed_tokens", "model.norm", "lm_head"]


def test_the_spec_tells_the_sizes_of_the_file(tmp_path):
    path = tiny_gguf(tmp_path / "m.gguf", metadata={"tokenizer.ggml.eot_token_id": 7})
    loaded = load_model(path)
    assert loaded.tokenizer_path == path
    assert (loaded.spec.architecture, loaded.spec.num_layers) == ("llama", 2)
    assert (loaded.spec.vocab_size, loaded.spec.max_context) == (311, 512)
    assert loaded.spec.eos_token_ids == {2, 7}
    assert loaded.spec.dtype == mx.float32


def test_yarn_in_the_metadata_is_yarn_in_config_json(tmp_path):
    metadata = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 512,
    }
    file = load_model(tiny_gguf(tmp_path / "m.gguf", metadata=metadata))
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    twin = TinyModel("llama", config={"rope_scaling": scaling})
    folder = load_model(write_checkpoint(tmp_path / "twin", twin))
    assert file.spec.max_context == folder.spec.max_context == 2048
    assert mx.array_equal(logits(tmp_path / "m.gguf"), logits(tmp_path / "twin"))


def test_the_divisors_of_llama3_in_a_tensor_count(tmp_path):
    plain = tiny_gguf(tmp_path / "plain.gguf")
    ones = tiny_gguf(tmp_path / "ones.gguf", tensors={"rope_freqs.weight": np.ones(32)})
    eights = tiny_gguf(tmp_path / "eights.gguf", tensors={"rope_freqs.weight": np.full(32, 8.0)})
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 8.0}
    slow = tiny_gguf(tmp_path / "slow.gguf", metadata=linear)
    assert mx.array_equal(logits(ones), logits(plain))
    assert mx.allclose(logits(eights), logits(slow), atol=1e-5).item()
    assert not mx.allclose(logits(eights), logits(plain), atol=1e-2).item()


def refusal(path):
    with pytest.raises(ModelError) as caught:
        load_model(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"general.architecture": "gpt2"}, "GGUF architecture 'gpt2' is not supported; llama,"),
        ({"llama.expert_count": 8}, "llama.expert_count must be 0"),
        ({"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0}, "'longrope'"),
        ({"llama.rope.scaling.type": "linear"}, "llama.rope.scaling.factor is missing"),
        ({"llama.rope.dimension_count": 32}, "llama.rope.dimension_count must be the head size"),
        ({"llama.attention.value_length": 32}, "llama.attention.value_length must be the head"),
        ({"llama.block_count": "two"}, "llama.block_count must be an integer"),
        ({"split.count": 3}, "split in parts"),
        ({"general.alignment": 0}, "general.alignment"),
    ],
)
def test_metadata_that_is_not_supported_is_named(tmp_path, metadata, words):
    assert words in refusal(tiny_gguf(tmp_path / "m.gguf", metadata=metadata))


def test_a_missing_and_a_surplus_tensor_are_named(tmp_path):
    fewer = tiny_gguf(
        tmp_path / "fewer.gguf", TinyModel("llama", num_layers=1), metadata={"llama.block_count": 2}
    )
    assert "tensor model.layers.1." in refusal(fewer)
    more = tiny_gguf(tmp_path / "more.gguf", metadata={"llama.block_count": 1})
    assert "has no place in a llama model" in refusal(more)


def test_a_tensor_type_that_is_not_supported_is_named_with_those_that_are(tmp_path):
    path = tiny_gguf(tmp_path / "m.gguf", types={"blk.0.ffn_up.weight": "IQ4_NL"})
    assert refusal(path) == (
        ": tensor blk.0.ffn_up.weight has GGUF type IQ4_NL; supported: F32, F16, BF16, Q4_0, Q4_1, "
        "Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K"
    )


def test_a_file_cut_anywhere_is_refused(tmp_path):
    whole = tiny_gguf(tmp_path / "m.gguf", quantization="Q4_0").read_bytes()
    path = tmp_path / "cut.gguf"
    for size in [0, 3, 4, 8, 23, 24, 60, *range(100, len(whole), 4999), len(whole) - 33]:
        path.write_bytes(whole[:size])
        message = refusal(path)
        assert "truncated" in message or "not a GGUF file" in message


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "page.gguf"
    path.write_text("<html>" + " " * 1000)
    assert refusal(path) == ": not a GGUF file"


def test_an_old_version_is_named(tmp_path):
    path = tiny_gguf(tmp_path / "m.gguf")
    data = bytearray(path.read_bytes())
    data[4] = 1
    path.write_bytes(data)
    assert refusal(path) == ": GGUF version 1 is not supported; 2 and 3 are"


def test_counts_beyond_all_measure_are_refused_at_once(tmp_path):
    path = tiny_gguf(tmp_path / "m.gguf")
    data = bytearray(path.read_bytes())
    data[8:24] = b"\xff" * 16
    path.write_bytes(data)
    assert refusal(path) == ": the GGUF file is truncated or damaged"


def test_metadata_reads_back_as_the_gguf_package_wrote_it(tmp_path):
    path = tiny_gguf(tmp_path / "m.gguf", metadata={"a.text": "é", "a.flag": True, "a.part": 0.5})
    ours = GGUFFile(path).metadata
    for key, field in gguf.GGUFReader(path).fields.items():
        if not key.startswith("GGUF."):
            assert ours[key] == field.contents()
    assert (ours["a.text"], ours["a.flag"], ours["a.part"]) == ("é", True, 0.5)


def test_damage_to_the_header_is_refused_in_one_line_or_does_no_harm(tmp_path):
    whole = tiny_gguf(tmp_path / "m.gguf", quantization="Q4_0").read_bytes()
    entries = range(whole.index(b"token_embd.weight"), whole.index(b"blk.1.ffn_down.weight"))
    rng, path, refusals = random.Random(5), tmp_path / "damaged.gguf", []
    for _ in range(150):
        data = bytearray(whole)
        data[rng.choice(entries)] = rng.choice([0, 1, 3, 8, 9, 255])
        path.write_bytes(data)
        try:
            load_model(path)
        except ModelError as error:
            refusals.append(str(error))
    assert len(refusals) > 50
    assert [message for message in refusals if "\n" in message] == []
