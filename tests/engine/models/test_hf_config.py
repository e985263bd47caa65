"""config.json: what is read, and what is refused by name."""

import pytest

from engine.errors import ModelError
from engine.models.fields import Fields
from engine.models.hf_config import parse_config
from tests.support.checkpoints import TinyModel, hf_config


def parse(family="llama", **values):
    fields = Fields(hf_config(TinyModel(family)) | values, "config.json")
    return parse_config(fields, frozenset())


def refusal(family="llama", **values):
    with pytest.raises(ModelError) as caught:
        parse(family, **values)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_missing_sizes_follow_from_the_others():
    config = parse(head_dim=None, num_key_value_heads=None)
    assert config.head_dim == 64 // 4
    assert config.num_kv_heads == 4


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size", "model_type"])
def test_a_missing_key_is_named(key):
    assert refusal(**{key: None}) == f"config.json: {key} is missing"


@pytest.mark.parametrize("value", ["64", 0, -1, 1.5, True, [64]])
def test_a_size_of_the_wrong_kind_is_named_with_its_value(value):
    message = refusal(hidden_size=value)
    assert message.startswith("config.json: hidden_size must be an integer")
    assert repr(value) in message


def test_an_unknown_model_type_is_refused_with_the_supported_ones():
    assert refusal(model_type="gpt_bigcode") == (
        "config.json: model type 'gpt_bigcode' is not supported; llama, mistral, qwen2, qwen3 are"
    )


@pytest.mark.parametrize("key", ["type", "rope_type"])
@pytest.mark.parametrize("kind", ["dynamic", "longrope", "su", "mrope"])
def test_an_unknown_rope_type_is_refused_under_either_key(key, kind):
    message = refusal(rope_scaling={key: kind, "factor": 2.0})
    assert message == (
        f"config.json: rope_scaling: rope type {kind!r} is not supported; "
        "default, linear, llama3, yarn are"
    )


def test_a_scaled_rope_without_its_factor_is_refused():
    message = refusal(rope_scaling={"type": "linear"})
    assert message == "config.json: rope_scaling: factor is missing"


LLAMA3 = {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rope_theta": 0}, "rope_theta must be a number above 1, got 0"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor must be a number above 0"),
        ({"rope_scaling": {"type": "yarn", "factor": -4.0}}, "factor must be a number above 0"),
        ({"rope_scaling": LLAMA3 | {"low_freq_factor": 4}}, "high_freq_factor must be a number"),
        ({"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 0}}, "an integer above 0"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps must be a number above 0, got nan"),
    ],
)
def test_numbers_that_no_formula_can_take_are_named(values, words):
    assert words in refusal(**values)


def test_rope_parameters_by_layer_type_are_refused():
    message = refusal(rope_parameters={"full_attention": {"rope_type": "default"}})
    assert "full_attention" in message


@pytest.mark.parametrize(
    "values", [{"partial_rotary_factor": 0.5}, {"rope_parameters": {"partial_rotary_factor": 0.5}}]
)
def test_a_head_that_rotates_in_part_is_refused(values):
    assert "partial_rotary_factor must be 1" in refusal(**values)


def test_another_activation_is_refused():
    assert refusal(hidden_act="gelu") == "config.json: hidden_act must be 'silu', got 'gelu'"


def test_heads_that_do_not_share_key_heads_evenly_are_refused():
    assert "num_attention_heads" in refusal(num_key_value_heads=3)


def test_llama_has_no_windows():
    assert parse().windows == (None, None)


def test_mistral_has_one_window_for_all_layers():
    assert parse("mistral", sliding_window=7).windows == (7, 7)


def test_a_null_window_of_mistral_is_none_and_a_missing_one_the_familys():
    assert parse("mistral", sliding_window=None).windows == (None, None)
    assert parse("mistral").windows == (4096, 4096)


def test_qwen_windows_count_only_when_switched_on_and_from_their_first_layer():
    window = {"sliding_window": 9, "max_window_layers": 1}
    assert parse("qwen2", **window, use_sliding_window=False).windows == (None, None)
    assert parse("qwen2", **window, use_sliding_window=True).windows == (None, 9)


def test_layer_types_say_which_layers_have_a_window():
    kinds = ["sliding_attention", "full_attention"]
    assert parse("qwen3", layer_types=kinds, sliding_window=5).windows == (5, None)


def test_an_unknown_layer_type_is_refused():
    message = refusal("qwen3", layer_types=["full_attention", "linear_attention"])
    assert "layer type 'linear_attention' is not supported" in message


def test_end_tokens_are_united_with_those_found_elsewhere():
    fields = Fields(hf_config(TinyModel("llama")) | {"eos_token_id": [5, 6]}, "config.json")
    assert parse_config(fields, frozenset({6, 7})).eos_token_ids == {5, 6, 7}
