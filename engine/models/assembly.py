"""Assembles decoders from a checkpoint's parameters; the families choose the parts of a layer.

Parameter names are Llama's, which the families here share.
"""

from collections.abc import Callable

from engine.models.decoder import Decoder
from engine.models.layers import Attention, DecoderLayer, RotaryEmbedding, SwiGLU
from engine.models.model import ModelSpec
from engine.models.model_config import ModelConfig
from engine.models.norm import RMSNorm
from engine.models.parameters import Parameters
from engine.models.row_ops import HeadShape

BuildLayer = Callable[[ModelConfig, Parameters, int], DecoderLayer]


def build_decoder(config: ModelConfig, parameters: Parameters, build_layer: BuildLayer) -> Decoder:
    """A decoder whose layers `build_layer` makes; raises ModelError for what is missing."""
    embedding = parameters.matrix("model.embed_tokens", config.vocab_size, config.hidden_size)
    layers = [build_layer(config, parameters, index) for index in range(config.num_layers)]
    norm = parameters.norm("model.norm", config.hidden_size, config.rms_norm_eps)
    if config.tied_embeddings:
        parameters.drop("lm_head.weight")
        head = embedding
    else:
        head = parameters.matrix("lm_head", config.vocab_size, config.hidden_size)
    rotary = RotaryEmbedding(config.rope, parameters.ops)
    return Decoder(_spec(config, parameters), embedding, layers, rotary, norm, head)


def attention(
    config: ModelConfig,
    parameters: Parameters,
    index: int,
    *,
    head_norm: RMSNorm | None = None,
    qkv_bias: bool = False,
) -> Attention:
    """The attention of layer `index`; with `qkv_bias` the biases of q, k and v must be there."""
    prefix = _prefix(index) + "self_attn."
    heads = HeadShape(config.num_attention_heads, config.num_kv_heads, config.head_dim)
    outputs = {
        prefix + "q_proj": heads.query_size,
        prefix + "k_proj": heads.kv_size,
        prefix + "v_proj": heads.kv_size,
    }
    parameters.drop(prefix + "rotary_emb.inv_freq")
    return Attention(
        index,
        heads,
        norm=_norm(config, parameters, index, "input_layernorm"),
        qkv=parameters.stack(outputs, config.hidden_size, needs_bias=qkv_bias),
        output=parameters.matrix(prefix + "o_proj", config.hidden_size, heads.query_size),
        head_norm=head_norm,
        window=config.windows[index],
    )


def head_norm(config: ModelConfig, parameters: Parameters, index: int) -> RMSNorm:
    """The norms of the query and key heads of layer `index`, as one."""
    prefix = _prefix(index) + "self_attn."
    heads = {
        prefix + "q_norm": config.num_attention_heads,
        prefix + "k_norm": config.num_kv_heads,
    }
    return parameters.head_norm(heads, config.head_dim, config.rms_norm_eps)


def swiglu(config: ModelConfig, parameters: Parameters, index: int) -> SwiGLU:
    """The MLP of layer `index`."""
    prefix = _prefix(index) + "mlp."
    hidden, width = config.hidden_size, config.intermediate_size
    gate_up = {prefix + "gate_proj": width, prefix + "up_proj": width}
    return SwiGLU(
        _norm(config, parameters, index, "post_attention_layernorm"),
        parameters.stack(gate_up, hidden),
        parameters.matrix(prefix + "down_proj", hidden, width),
        parameters.ops,
    )


def _norm(config: ModelConfig, parameters: Parameters, index: int, name: str) -> RMSNorm:
    return parameters.norm(_prefix(index) + name, config.hidden_size, config.rms_norm_eps)


def _prefix(index: int) -> str:
    return f"model.layers.{index}."


def _spec(config: ModelConfig, parameters: Parameters) -> ModelSpec:
    return ModelSpec(
        architecture=config.model_type,
        num_layers=config.num_layers,
        num_attention_heads=config.num_attention_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        max_context=config.max_positions,
        eos_token_ids=config.eos_token_ids,
        dtype=parameters.dtype,
    )
