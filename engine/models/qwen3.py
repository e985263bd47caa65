"""Qwen3, dense: Llama with an RMS norm of each query and key head before it is rotated."""

from engine.models.assembly import attention, build_decoder, head_norm, swiglu
from engine.models.decoder import Decoder
from engine.models.layers import DecoderLayer
from engine.models.model_config import ModelConfig
from engine.models.parameters import Parameters


def build_qwen3(config: ModelConfig, parameters: Parameters) -> Decoder:
    """A decoder from Qwen3's parameters; raises ModelError for what is missing."""
    return build_decoder(config, parameters, _layer)


def _layer(config: ModelConfig, parameters: Parameters, index: int) -> DecoderLayer:
    norm = head_norm(config, parameters, index)
    normed = attention(config, parameters, index, head_norm=norm)
    return DecoderLayer(normed, swiglu(config, parameters, index))
