"""Loads a model from a path, whatever the checkpoint's format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from engine.errors import ModelError
from engine.models.gguf_checkpoint import GGUFCheckpoint
from engine.models.llama import build_llama
from engine.models.model import CausalLM, ModelSpec
from engine.models.model_config import ModelConfig
from engine.models.parameters import Parameters
from engine.models.qwen2 import build_qwen2
from engine.models.qwen3 import build_qwen3
from engine.models.safetensors_folder import SafetensorsFolder
from engine.models.tensors import Checkpoint, Weights

# every model type that hf_config and gguf_config let through
FAMILIES: Mapping[str, Callable[[ModelConfig, Parameters], CausalLM]] = {
    "llama": build_llama,
    "mistral": build_llama,
    "qwen2": build_qwen2,
    "qwen3": build_qwen3,
}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model, and where its tokenizer lies: the checkpoint's folder or its GGUF file."""

    model: CausalLM
    tokenizer_path: Path

    @property
    def spec(self) -> ModelSpec:
        return self.model.spec


def load_model(path: Path) -> LoadedModel:
    """Loads the checkpoint at `path`, a folder with safetensors or a GGUF file.

    The weights belong to the calling thread and its default device, as all MLX arrays do. On CPU
    the model computes in float32, on Metal in the checkpoint's dtype. Raises ModelError, one line,
    for whatever is missing, broken or not supported.
    """
    try:
        checkpoint = open_checkpoint(path)
        on_cpu = mx.default_device().type == mx.DeviceType.cpu
        dtype = mx.float32 if on_cpu else checkpoint.dtype
        model = build_model(checkpoint, dtype, on_cpu=on_cpu)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    mx.clear_cache()  # what unpacking the weights left behind
    return LoadedModel(model, path)


def open_checkpoint(path: Path) -> Checkpoint:
    """Reads what the path holds, not yet its tensors; raises ModelError."""
    if path.is_file() and path.suffix == ".gguf":
        return GGUFCheckpoint(path)
    if path.is_dir():
        return SafetensorsFolder(path)
    if path.exists():
        raise ModelError(f"{path}: not a .gguf file, nor a folder with config.json and safetensors")
    raise ModelError(f"{path}: no such file or folder")


def build_model(checkpoint: Checkpoint, dtype: mx.Dtype, *, on_cpu: bool) -> CausalLM:
    """The model of a checkpoint, computing in `dtype`: by metal's CPU kernels or by MLX alone."""
    weights = Weights(checkpoint)
    build = FAMILIES[checkpoint.config.model_type]
    model = build(checkpoint.config, Parameters(weights, dtype, on_cpu=on_cpu))
    weights.finish()
    return model
