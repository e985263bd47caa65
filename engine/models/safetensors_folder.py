"""A checkpoint folder in Hugging Face's layout: config.json and safetensors, MLX-quantised or not."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import mlx.core as mx

from engine.errors import ModelError
from engine.models.affine_config import AffineConfig
from engine.models.eos import folder_eos_token_ids
from engine.models.fields import Fields
from engine.models.hf_config import parse_config
from engine.models.json_file import read_json_object
from engine.models.model_config import ModelConfig
from engine.models.safetensors_header import TensorEntry, read_header
from engine.models.tensors import DenseWeight, QuantizedWeight, Weight
from engine.models.weight_files import config_file, weight_files

FLOAT_DTYPES = ("F32", "F16", "BF16")
FOREIGN_SUFFIXES: Mapping[str, str] = {
    ".qweight": "AWQ or GPTQ",
    ".qzeros": "AWQ or GPTQ",
    ".weight_scale_inv": "block float8",
    ".weight_scale": "float8 or compressed-tensors",
    ".weight_packed": "compressed-tensors",
    ".absmax": "bitsandbytes",
}


class SafetensorsFolder:
    """Implements `Checkpoint`. Files are mapped lazily: a tensor is read when it is computed."""

    def __init__(self, folder: Path) -> None:
        self.label = str(folder)
        path = config_file(folder)
        config = Fields(read_json_object(path), str(path))
        self.config: ModelConfig = parse_config(config, folder_eos_token_ids(folder))
        self._affine = AffineConfig(config)
        self._entries: dict[str, TensorEntry] = {}
        self._arrays: dict[str, mx.array] = {}
        for file in weight_files(folder):
            self._entries |= read_header(file)
            self._arrays |= _map_file(file)
        _refuse_foreign_formats(self.label, self._entries)

    @property
    def dtype(self) -> mx.Dtype:
        embedding = "model.embed_tokens."
        for name in (embedding + "scales", embedding + "weight"):
            if name in self._arrays:
                return self._arrays[name].dtype
        return mx.float32

    def names(self) -> frozenset[str]:
        return frozenset(name for name in self._entries if not self._belongs_to_a_weight(name))

    def read(self, name: str) -> Weight:
        module = name.removesuffix(".weight")
        if name.endswith(".weight") and module + ".scales" in self._arrays:
            return self._read_quantized(module)
        self._require_dtype(name, FLOAT_DTYPES)
        return DenseWeight(self._arrays.pop(name))

    def _read_quantized(self, module: str) -> QuantizedWeight:
        affine = self._affine.format_of(module)
        parts = [f"{module}.{part}" for part in ("weight", "scales", "biases")]
        for name in parts:
            if name not in self._entries:
                raise ModelError(f"{self.label}: tensor {name} is missing")
            self._require_dtype(name, ("U32",) if name == parts[0] else FLOAT_DTYPES)
        codes, scales, biases = (self._arrays.pop(name) for name in parts)
        weight = QuantizedWeight(codes, scales, biases, affine.bits, affine.group_size)
        if codes.shape[-1] * 32 != weight.shape[-1] * affine.bits or scales.shape != biases.shape:
            raise ModelError(
                f"{self.label}: {module} does not have the shape of {affine.bits} bits in groups "
                f"of {affine.group_size}, as config.json says"
            )
        return weight

    def _require_dtype(self, name: str, supported: tuple[str, ...]) -> None:
        dtype = self._entries[name].dtype
        if dtype not in supported:
            raise ModelError(
                f"{self.label}: tensor {name} has dtype {dtype}; supported: {', '.join(supported)}"
            )

    def _belongs_to_a_weight(self, name: str) -> bool:
        module, _, kind = name.rpartition(".")
        return kind in ("scales", "biases") and module + ".weight" in self._entries


def _map_file(file: Path) -> dict[str, mx.array]:
    try:
        arrays = mx.load(str(file))
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"{file}: MLX cannot read it: {str(error).splitlines()[0]}") from error
    assert isinstance(arrays, dict)  # mx.load gives a dict for safetensors
    return arrays


def _refuse_foreign_formats(label: str, names: Iterable[str]) -> None:
    for name in names:
        for suffix, method in FOREIGN_SUFFIXES.items():
            if name.endswith(suffix):
                raise ModelError(
                    f"{label}: tensor {name} is {method}-quantised, which is not supported; "
                    "MLX's affine quantisation and GGUF are"
                )
