"""Folders that cannot be served: one line that names what is wrong (case E06)."""

import json
import shutil
import struct

import mlx.core as mx
import pytest

from engine.errors import ModelError
from engine.models import load_model
from tests.support.checkpoints import Quantization, tiny_llama

SUPPORTED = "MLX's affine quantisation and GGUF are"


@pytest.fixture
def folder(tmp_path):
    return tiny_llama(tmp_path / "model")


def refusal(path):
    with pytest.raises(ModelError) as caught:
        load_model(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def configure(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def save(folder, tensors):
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)


def load(folder):
    tensors = {n: mx.array(t) for n, t in mx.load(str(folder / "model.safetensors")).items()}
    mx.eval(tensors)
    return tensors


def test_a_path_that_does_not_exist(tmp_path):
    assert refusal(tmp_path / "nowhere") == ": no such file or folder"


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x")
    assert refusal(path) == ": not a .gguf file, nor a folder with config.json and safetensors"


def test_a_folder_without_config(folder):
    (folder / "config.json").unlink()
    assert refusal(folder) == ": config.json is missing"


@pytest.mark.parametrize("text", ["{", "[1]", "", "\xff\xfe"])
def test_a_config_that_is_no_json_object(folder, text):
    (folder / "config.json").write_text(text, encoding="latin-1")
    assert refusal(folder).startswith("/config.json: ")


def test_an_unknown_architecture_is_named_before_missing_weights(folder):
    configure(folder, model_type="mamba")
    (folder / "model.safetensors").unlink()
    assert "model type 'mamba' is not supported" in refusal(folder)


@pytest.mark.parametrize("method", ["awq", "gptq", "fp8", "bitsandbytes", "compressed-tensors"])
def test_another_quantisation_method_is_named(folder, method):
    configure(folder, quantization_config={"quant_method": method, "bits": 4})
    assert refusal(folder).endswith(
        f"quantization_config: quantisation method {method!r} is not supported; {SUPPORTED}"
    )


def test_awq_and_gptq_tensors_are_named_even_without_a_word_in_the_config(folder):
    save(folder, load(folder) | {"model.layers.0.mlp.up_proj.qweight": mx.zeros(4, mx.int32)})
    assert refusal(folder) == (
        ": tensor model.layers.0.mlp.up_proj.qweight is AWQ or GPTQ-quantised, "
        f"which is not supported; {SUPPORTED}"
    )


@pytest.mark.parametrize("mode", ["mxfp4", "nvfp4", "mxfp8"])
def test_another_quantisation_mode_is_named(tmp_path, mode):
    quantised = tiny_llama(tmp_path, quantization=Quantization())
    configure(quantised, quantization={"group_size": 32, "bits": 4, "mode": mode})
    assert f"quantisation mode {mode!r} is not supported; affine is" in refusal(quantised)


@pytest.mark.parametrize(("key", "value"), [("bits", 7), ("bits", "4"), ("group_size", 16)])
def test_bits_and_group_sizes_out_of_range_are_named(tmp_path, key, value):
    quantised = tiny_llama(tmp_path, quantization=Quantization())
    configure(quantised, quantization={"group_size": 32, "bits": 4} | {key: value})
    assert f"quantization: {key} must be" in refusal(quantised)


def test_bits_that_do_not_fit_the_tensors_are_named(tmp_path):
    quantised = tiny_llama(tmp_path, quantization=Quantization(bits=4))
    configure(quantised, quantization={"group_size": 32, "bits": 8})
    assert "does not have the shape of 8 bits in groups of 32" in refusal(quantised)


def test_scales_without_settings_are_refused(tmp_path):
    quantised = tiny_llama(tmp_path, quantization=Quantization())
    configure(quantised, quantization=None)
    assert "no 'quantization', but model.embed_tokens has scales" in refusal(quantised)


def test_a_missing_tensor_is_named(folder):
    tensors = load(folder)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save(folder, tensors)
    assert refusal(folder) == ": tensor model.layers.1.mlp.up_proj.weight is missing"


def test_missing_biases_of_a_quantised_layer_are_named(tmp_path):
    quantised = tiny_llama(tmp_path, quantization=Quantization())
    tensors = load(quantised)
    del tensors["model.layers.0.mlp.down_proj.biases"]
    save(quantised, tensors)
    assert refusal(quantised) == ": tensor model.layers.0.mlp.down_proj.biases is missing"


def test_a_tensor_with_no_place_is_named(folder):
    extra = {"model.layers.2.mlp.up_proj.weight": mx.zeros((2, 2)), "score.weight": mx.zeros(2)}
    save(folder, load(folder) | extra)
    assert refusal(folder) == (
        ": tensor model.layers.2.mlp.up_proj.weight (and 1 more) has no place in a llama model"
    )


def test_a_tensor_of_the_wrong_shape_is_named_with_both_shapes(folder):
    save(folder, load(folder) | {"model.norm.weight": mx.ones(65)})
    assert refusal(folder) == ": tensor model.norm.weight must have shape [64], got [65]"


def test_a_tensor_of_the_wrong_dtype_is_named(folder):
    save(folder, load(folder) | {"model.norm.weight": mx.ones(64, mx.int32)})
    assert refusal(folder) == (
        ": tensor model.norm.weight has dtype I32; supported: F32, F16, BF16"
    )


def test_a_missing_shard_is_named(tmp_path):
    sharded = tiny_llama(tmp_path, shards=3)
    (sharded / "model-00002-of-00003.safetensors").unlink()
    assert refusal(sharded) == (
        ": shard model-00002-of-00003.safetensors is missing; model.safetensors.index.json names it"
    )


def test_missing_shards_are_counted_where_there_is_no_index(tmp_path):
    sharded = tiny_llama(tmp_path, shards=3)
    (sharded / "model.safetensors.index.json").unlink()
    load_model(sharded)
    (sharded / "model-00002-of-00003.safetensors").unlink()
    assert refusal(sharded) == ": 2 of 3 shards are there"


@pytest.mark.parametrize("size", [0, 7, 8, 100, 5000, 100_000, -1])
def test_a_truncated_file_is_named(folder, size):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    assert "model.safetensors: the file is truncated" in refusal(folder)


def test_a_file_with_a_header_of_nonsense_is_named(folder):
    file = folder / "model.safetensors"
    file.write_bytes(struct.pack("<Q", 4) + b"oops" + bytes(100))
    assert refusal(folder).endswith("model.safetensors: the safetensors header cannot be read")


@pytest.mark.parametrize(
    "header", [{"x": 1}, {"x": {"dtype": "F32", "shape": [1], "data_offsets": []}}, {"x": {}}, []]
)
def test_a_header_of_another_shape_is_named(folder, header):
    text = json.dumps(header).encode()
    file = folder / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(100))
    assert refusal(folder).endswith("model.safetensors: the safetensors header cannot be read")


def test_a_page_of_html_in_place_of_weights_is_named(folder):
    (folder / "model.safetensors").write_text("<html><body>Not found</body></html>")
    assert refusal(folder).endswith("model.safetensors: not a safetensors file")


def test_pytorch_weights_alone_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert refusal(folder) == (
        ": only *.bin weights here; safetensors and GGUF weights are supported"
    )


def test_a_folder_with_a_gguf_file_is_pointed_to_the_file(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.Q4_0.gguf").write_bytes(b"GGUF")
    hint = f"; give the path of the GGUF file itself: {folder / 'model.Q4_0.gguf'}"
    assert refusal(folder) == f": no safetensors here{hint}"
    (folder / "config.json").unlink()
    assert refusal(folder) == f": config.json is missing{hint}"


def test_an_empty_folder_says_what_is_supported(folder):
    (folder / "model.safetensors").unlink()
    assert refusal(folder) == ": no weights here; safetensors and GGUF weights are supported"


def test_a_copy_of_a_refused_folder_loads_once_it_is_mended(folder, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    configure(broken, hidden_act="gelu")
    refusal(broken)
    configure(broken, hidden_act="silu")
    assert load_model(broken).spec == load_model(folder).spec
