"""MLX's quantisation settings in config.json: bits and group size of each module.

"quantization": {"group_size": 64, "bits": 4, "model.layers.0.mlp.down_proj": {"bits": 8, ...}}
"""

from dataclasses import dataclass

from engine.errors import ModelError
from engine.models.fields import Fields

SUPPORTED_BITS = (2, 3, 4, 5, 6, 8)
SUPPORTED_GROUP_SIZES = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class AffineFormat:
    bits: int
    group_size: int


class AffineConfig:
    """The formats of a quantised checkpoint's modules, by path."""

    def __init__(self, config: Fields) -> None:
        _refuse_other_methods(config)
        self._label = config.label
        self._fields = config.section("quantization") or config.section("quantization_config")

    def format_of(self, module: str) -> AffineFormat:
        """The module's own format, else the default; raises ModelError if it is not supported."""
        if self._fields is None:
            raise ModelError(f"{self._label}: no 'quantization', but {module} has scales")
        override = self._fields.raw(module)
        section = self._fields.section(module) if isinstance(override, dict) else None
        return _parse(section or self._fields, self._fields)


def _parse(section: Fields, defaults: Fields) -> AffineFormat:
    mode = section.text("mode", defaults.text("mode", "affine"))
    if mode != "affine":
        raise ModelError(f"{section.label}: quantisation mode {mode!r} is not supported; affine is")
    bits = section.integer("bits", defaults.integer("bits"))
    group_size = section.integer("group_size", defaults.integer("group_size"))
    if bits not in SUPPORTED_BITS:
        raise section.wrong("bits", f"one of {SUPPORTED_BITS}")
    if group_size not in SUPPORTED_GROUP_SIZES:
        raise section.wrong("group_size", f"one of {SUPPORTED_GROUP_SIZES}")
    return AffineFormat(bits, group_size)


def _refuse_other_methods(config: Fields) -> None:
    section = config.section("quantization_config")
    if section is not None and "quant_method" in section:
        method = section.text("quant_method")
        raise ModelError(
            f"{section.label}: quantisation method {method!r} is not supported; "
            "MLX's affine quantisation and GGUF are"
        )
