"""Llama 2 and 3, SmolLM2, Mistral. Any projection has a bias if the checkpoint has one."""

from engine.models.assembly import attention, build_decoder, swiglu
from engine.models.decoder import Decoder
from engine.models.layers import DecoderLayer
from engine.models.model_config import ModelConfig
from engine.models.parameters import Parameters


def build_llama(config: ModelConfig, parameters: Parameters) -> Decoder:
    """A decoder from Llama's parameters; raises ModelError for what is missing."""
    return build_decoder(config, parameters, _layer)


def _layer(config: ModelConfig, parameters: Parameters, index: int) -> DecoderLayer:
    return DecoderLayer(attention(config, parameters, index), swiglu(config, parameters, index))
