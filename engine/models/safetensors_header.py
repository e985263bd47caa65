"""The header of a .safetensors file, checked before MLX reads the file. Standard library only.

u64 little-endian n | n bytes of JSON {name: {dtype, shape, data_offsets}} | data
"""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError

MAX_HEADER_BYTES = 100_000_000  # the format's own limit


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of a header; `dtype` in safetensors' words, `end` in bytes from the data's start."""

    dtype: str
    shape: tuple[int, ...]
    end: int


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The tensors of a file by name; raises ModelError for a broken or truncated file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = _header_length(path, file.read(8), size)
        header = _parse(path, file.read(length))
    for name, entry in header.items():
        if 8 + length + entry.end > size:
            raise ModelError(f"{path}: the file is truncated: tensor {name} lies beyond its end")
    return header


def _header_length(path: Path, prefix: bytes, size: int) -> int:
    if len(prefix) < 8:
        raise ModelError(f"{path}: the file is truncated: it has no safetensors header")
    length: int = struct.unpack("<Q", prefix)[0]
    if length > MAX_HEADER_BYTES:
        raise ModelError(f"{path}: not a safetensors file")
    if 8 + length > size:
        raise ModelError(f"{path}: the file is truncated: its header lies beyond its end")
    return length


def _parse(path: Path, text: bytes) -> dict[str, TensorEntry]:
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        return {name: _entry(value) for name, value in header.items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: the safetensors header cannot be read") from error


def _entry(value: dict[str, object]) -> TensorEntry:
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or not isinstance(shape, list) or not isinstance(offsets, list):
        raise TypeError(value)
    return TensorEntry(dtype, tuple(int(size) for size in shape), int(offsets[1]))
