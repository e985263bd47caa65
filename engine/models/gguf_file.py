"""A GGUF file: its metadata and where its tensors lie. Standard library only.

Tensor offsets count from the data's start, which is aligned.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from engine.gguf_reader import GGUFReader
from engine.models.gguf_types import GGMLType, ggml_type

DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """One tensor: shape in row-major order ([N, K]), bytes [start, start + size) of the file."""

    name: str
    kind: GGMLType
    shape: tuple[int, ...]
    start: int
    size: int


class GGUFFile:
    """An open GGUF file. Raises ModelError if the file is not one, or is truncated.

    `metadata` holds int, float, bool, str and lists of these, by key.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            reader = GGUFReader(memoryview(self._bytes), str(path))
            num_tensors, num_keys = reader.counts()
            self.metadata = reader.metadata(num_keys)
            entries = [_read_entry(reader) for _ in range(num_tensors)]
        except (struct.error, ValueError, OverflowError, MemoryError) as error:
            raise ModelError(f"{path}: the GGUF file is truncated or damaged") from error
        self.tensors = self._locate(entries, reader.offset)

    def read(self, tensor: GGUFTensor) -> memoryview:
        """The raw bytes of a tensor; a view of the mapped file."""
        return memoryview(self._bytes)[tensor.start : tensor.start + tensor.size]

    def _locate(self, entries: "list[_Entry]", header_end: int) -> dict[str, GGUFTensor]:
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise ModelError(f"{self.path}: general.alignment must be a size, got {alignment!r}")
        data_start = -(-header_end // alignment) * alignment
        tensors = {}
        for entry in entries:
            tensor = _place(entry, data_start, self.path)
            if tensor.start + tensor.size > len(self._bytes):
                raise ModelError(
                    f"{self.path}: the file is truncated: tensor {entry.name} lies beyond its end"
                )
            tensors[entry.name] = tensor
        return tensors


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    dimensions: tuple[int, ...]  # fastest first, as the file has them
    type_id: int
    offset: int


def _read_entry(reader: GGUFReader) -> _Entry:
    name = reader.string()
    dimensions = tuple(reader.integer("Q") for _ in range(reader.integer("I")))
    return _Entry(name, dimensions, reader.integer("I"), reader.integer("Q"))


def _place(entry: _Entry, data_start: int, path: Path) -> GGUFTensor:
    kind = ggml_type(entry.type_id)
    if kind is None:
        raise ModelError(f"{path}: tensor {entry.name} has unknown type {entry.type_id}")
    rows = 1
    for size in entry.dimensions[1:]:
        rows *= size
    columns = entry.dimensions[0] if entry.dimensions else 1
    if columns % kind.block_size:
        raise ModelError(f"{path}: tensor {entry.name}: {columns} columns in {kind.name} blocks")
    size = rows * columns // kind.block_size * kind.block_bytes
    shape = tuple(reversed(entry.dimensions))
    return GGUFTensor(entry.name, kind, shape, data_start + entry.offset, size)
