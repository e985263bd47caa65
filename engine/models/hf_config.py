"""config.json in Hugging Face's keys -> ModelConfig. Standard library only."""

from engine.errors import ModelError
from engine.models.fields import Fields
from engine.models.model_config import ModelConfig
from engine.models.rope import (
    LinearScaling,
    Llama3Scaling,
    Rope,
    RopeScaling,
    YarnScaling,
    yarn_attention_factor,
)

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
ROPE_TYPES = "default, linear, llama3, yarn"
MISTRAL_WINDOW = 4096  # the family's value where config.json has no such key; null means none


def parse_config(fields: Fields, eos_token_ids: frozenset[int]) -> ModelConfig:
    """Reads the sizes of a decoder; raises ModelError for what is missing or not supported."""
    _refuse_other_architectures(fields)
    heads = fields.size("num_attention_heads")
    head_dim = fields.size("head_dim", fields.size("hidden_size") // heads)
    rope = parse_rope(fields, head_dim)
    _refuse_other_activations(fields)
    num_layers = fields.size("num_hidden_layers")
    return ModelConfig(
        model_type=fields.text("model_type"),
        hidden_size=fields.size("hidden_size"),
        intermediate_size=fields.size("intermediate_size"),
        num_layers=num_layers,
        num_attention_heads=heads,
        num_kv_heads=fields.size("num_key_value_heads", heads),
        head_dim=head_dim,
        vocab_size=fields.size("vocab_size"),
        max_positions=rope.extended_context(fields.size("max_position_embeddings")),
        rms_norm_eps=fields.number_above(0, "rms_norm_eps", 1e-6),
        rope=rope,
        tied_embeddings=fields.flag("tie_word_embeddings", default=False),
        windows=_windows(fields, num_layers),
        eos_token_ids=eos_token_ids | fields.token_ids("eos_token_id"),
    ).checked(fields.label)


def parse_rope(fields: Fields, head_dim: int) -> Rope:
    """Reads rope_theta with rope_scaling, or the nested rope_parameters of transformers 5."""
    section = fields.section("rope_parameters") or fields.section("rope_scaling")
    section = section or Fields({}, fields.label)
    home_of_theta = section if "rope_theta" in section else fields
    theta = home_of_theta.number_above(1, "rope_theta", 10000.0)
    for place in (fields, section):
        if place.number("partial_rotary_factor", 1.0) != 1.0:
            raise place.wrong("partial_rotary_factor", "1 (the whole head rotates)")
    return Rope(head_dim, theta, _scaling(section, fields))


def _scaling(section: Fields, fields: Fields) -> RopeScaling | None:
    kind = section.text("rope_type", section.text("type", "default"))
    if kind == "default":
        _refuse_per_layer_parameters(section)
        return None
    if kind == "linear":
        return LinearScaling(section.number_above(0, "factor"))
    if kind == "llama3":
        low = section.number_above(0, "low_freq_factor")
        high = section.number_above(low, "high_freq_factor")
        original = _original_max_positions(section, fields)
        return Llama3Scaling(section.number_above(0, "factor"), low, high, original)
    if kind == "yarn":
        return _yarn(section, fields)
    raise ModelError(f"{section.label}: rope type {kind!r} is not supported; {ROPE_TYPES} are")


def _yarn(section: Fields, fields: Fields) -> YarnScaling:
    original = _original_max_positions(section, fields)
    stretched = fields.size("max_position_embeddings") / original
    factor = section.number_above(0, "factor", stretched)
    return YarnScaling(
        factor,
        original,
        beta_fast=section.number_above(0, "beta_fast", 32.0),
        beta_slow=section.number_above(0, "beta_slow", 1.0),
        attention_factor=_yarn_attention_factor(section, factor),
        truncate=section.flag("truncate", default=True),
    )


def _yarn_attention_factor(section: Fields, factor: float) -> float:
    if "attention_factor" in section:
        return section.number("attention_factor")
    magnitude = section.number("mscale", 0.0)
    all_dims = section.number("mscale_all_dim", 0.0)
    if magnitude and all_dims:
        return yarn_attention_factor(factor, magnitude) / yarn_attention_factor(factor, all_dims)
    return yarn_attention_factor(factor)


def _original_max_positions(section: Fields, fields: Fields) -> int:
    key = "original_max_position_embeddings"
    if key in fields:
        return fields.size(key)
    return section.size(key, fields.size("max_position_embeddings"))


def _refuse_per_layer_parameters(section: Fields) -> None:
    for layer_type in ("full_attention", "sliding_attention"):
        if layer_type in section:
            raise ModelError(
                f"{section.label}: {layer_type}: rope parameters by layer type are not supported"
            )


def _refuse_other_architectures(fields: Fields) -> None:
    model_type = fields.text("model_type")
    if model_type not in MODEL_TYPES:
        raise ModelError(
            f"{fields.label}: model type {model_type!r} is not supported; "
            f"{', '.join(MODEL_TYPES)} are"
        )


def _refuse_other_activations(fields: Fields) -> None:
    if fields.text("hidden_act", "silu") != "silu":
        raise fields.wrong("hidden_act", "'silu'")


def _windows(fields: Fields, num_layers: int) -> tuple[int | None, ...]:
    if "layer_types" in fields:
        return _windows_by_layer_type(fields, num_layers)
    if fields.text("model_type") == "mistral":
        return (_mistral_window(fields),) * num_layers
    if not fields.flag("use_sliding_window", default=False):
        return (None,) * num_layers
    first = fields.integer("max_window_layers")
    window_size = fields.size("sliding_window")
    return tuple(window_size if layer >= first else None for layer in range(num_layers))


def _mistral_window(fields: Fields) -> int | None:
    if fields.states("sliding_window") and "sliding_window" not in fields:
        return None
    return fields.size("sliding_window", MISTRAL_WINDOW)


def _windows_by_layer_type(fields: Fields, num_layers: int) -> tuple[int | None, ...]:
    kinds = fields.raw("layer_types")
    if not isinstance(kinds, list) or len(kinds) != num_layers:
        raise fields.wrong("layer_types", f"a list of {num_layers}")
    return tuple(_window_of(kind, fields) for kind in kinds)


def _window_of(kind: object, fields: Fields) -> int | None:
    if kind == "full_attention":
        return None
    if kind == "sliding_attention":
        return fields.size("sliding_window")
    raise ModelError(
        f"{fields.label}: layer type {kind!r} is not supported; "
        "full_attention and sliding_attention are"
    )
