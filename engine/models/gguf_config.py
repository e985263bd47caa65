"""GGUF metadata -> ModelConfig. Standard library only."""

from collections.abc import Mapping, Sequence

from engine.errors import ModelError
from engine.models.fields import Fields
from engine.models.model_config import ModelConfig
from engine.models.rope import (
    DivisorScaling,
    LinearScaling,
    Rope,
    RopeScaling,
    YarnScaling,
    yarn_attention_factor,
)

ARCHITECTURES = ("llama", "qwen2", "qwen3")
EOS_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
ROPE_TYPES = "none, linear, yarn"


def parse_metadata(
    metadata: Mapping[str, object],
    label: str,
    *,
    vocab_size: int,
    tied_embeddings: bool,
    rope_divisors: Sequence[float] | None,
) -> ModelConfig:
    """Reads the sizes of a decoder; raises ModelError for what is missing or not supported.

    `vocab_size` is the embedding's row count, `rope_divisors` the rope_freqs tensor if there is one.
    """
    architecture = Fields(metadata, label).text("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelError(
            f"{label}: GGUF architecture {architecture!r} is not supported; "
            f"{', '.join(ARCHITECTURES)} are"
        )
    fields = Fields(metadata, label, prefix=architecture + ".")
    _refuse_experts(fields)
    head_dim = _head_dim(fields)
    rope = _rope(fields, head_dim, rope_divisors)
    num_layers = fields.size("block_count")
    return ModelConfig(
        model_type=architecture,
        hidden_size=fields.size("embedding_length"),
        intermediate_size=fields.size("feed_forward_length"),
        num_layers=num_layers,
        num_attention_heads=fields.size("attention.head_count"),
        num_kv_heads=fields.size("attention.head_count_kv", fields.size("attention.head_count")),
        head_dim=head_dim,
        vocab_size=vocab_size,
        max_positions=rope.extended_context(fields.size("context_length")),
        rms_norm_eps=fields.number_above(0, "attention.layer_norm_rms_epsilon"),
        rope=rope,
        tied_embeddings=tied_embeddings,
        windows=(_window(fields),) * num_layers,
        eos_token_ids=_eos_token_ids(metadata, label),
    ).checked(label)


def _refuse_experts(fields: Fields) -> None:
    if fields.integer("expert_count", 0):
        raise fields.wrong("expert_count", "0: mixtures of experts are not supported here")


def _head_dim(fields: Fields) -> int:
    even_share = fields.size("embedding_length") // fields.size("attention.head_count")
    head_dim = fields.size("attention.key_length", even_share)
    for key in ("attention.value_length", "rope.dimension_count"):
        if fields.size(key, head_dim) != head_dim:
            raise fields.wrong(key, f"the head size, {head_dim}")
    return head_dim


def _window(fields: Fields) -> int | None:
    key = "attention.sliding_window"
    return fields.size(key) if key in fields else None


def _rope(fields: Fields, head_dim: int, divisors: Sequence[float] | None) -> Rope:
    theta = fields.number_above(1, "rope.freq_base", 10000.0)
    scaling = _scaling(fields)
    if divisors is None:
        return Rope(head_dim, theta, scaling)
    if scaling is not None or len(divisors) != head_dim // 2:
        raise ModelError(
            f"{fields.label}: rope_freqs.weight must have {head_dim // 2} values and come alone, "
            f"got {len(divisors)} with rope.scaling.type {fields.raw('rope.scaling.type')!r}"
        )
    return Rope(head_dim, theta, DivisorScaling(tuple(divisors)))


def _scaling(fields: Fields) -> RopeScaling | None:
    kind = fields.text("rope.scaling.type", "none")
    if kind == "none":
        return None
    factor = fields.number_above(0, "rope.scaling.factor")
    if kind == "linear":
        return LinearScaling(factor)
    if kind == "yarn":
        return _yarn(fields, factor)
    raise ModelError(f"{fields.label}: rope type {kind!r} is not supported; {ROPE_TYPES} are")


def _yarn(fields: Fields, factor: float) -> YarnScaling:
    context = fields.size("context_length")
    attention = fields.number("rope.scaling.attn_factor", 1.0) * yarn_attention_factor(factor)
    return YarnScaling(
        factor,
        fields.size("rope.scaling.original_context_length", context),
        beta_fast=fields.number_above(0, "rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.number_above(0, "rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=attention,
    )


def _eos_token_ids(metadata: Mapping[str, object], label: str) -> frozenset[int]:
    fields = Fields(metadata, label, prefix="tokenizer.ggml.")
    ids: frozenset[int] = frozenset()
    for key in EOS_KEYS:
        ids |= fields.token_ids(key)
    return ids
