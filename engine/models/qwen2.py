"""Qwen2 and 2.5: Llama with biases on q, k and v."""

from engine.models.assembly import attention, build_decoder, swiglu
from engine.models.decoder import Decoder
from engine.models.layers import DecoderLayer
from engine.models.model_config import ModelConfig
from engine.models.parameters import Parameters


def build_qwen2(config: ModelConfig, parameters: Parameters) -> Decoder:
    """A decoder from Qwen2's parameters; raises ModelError for what is missing."""
    return build_decoder(config, parameters, _layer)


def _layer(config: ModelConfig, parameters: Parameters, index: int) -> DecoderLayer:
    biased = attention(config, parameters, index, qkv_bias=True)
    return DecoderLayer(biased, swiglu(config, parameters, index))
