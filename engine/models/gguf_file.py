"""A GGUF file: its metadata and where its tensors lie. Standard library only.

    magic "GGUF" | u32 version | u64 tensors | u64 keys | keys and values | tensor entries | data

All little-endian; strings are u64 length and UTF-8. Tensor offsets count from the data's start,
which is aligned. (The format: ggml's docs/gguf.md.)
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from engine.models.gguf_types import GGMLType, ggml_type

SUPPORTED_VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
SCALARS: Mapping[int, str] = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
STRING, ARRAY = 8, 9


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
            reader = _Reader(self._bytes)
            num_tensors, num_keys = _read_counts(reader, path)
            self.metadata: dict[str, object] = {
                reader.string(): reader.value(reader.scalar("I")) for _ in range(num_keys)
            }
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


class _Reader:
    """Reads values one after another from a buffer; runs into struct.error at its end."""

    def __init__(self, buffer: mmap.mmap) -> None:
        self._buffer = buffer
        self.offset = 0

    def scalar(self, code: str) -> int:
        value: int = struct.unpack_from("<" + code, self._buffer, self.offset)[0]
        self.offset += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        length = self.scalar("Q")
        end = self.offset + length
        if end > len(self._buffer):
            raise ValueError("a string ends after the file")
        text = self._buffer[self.offset : end].decode("utf-8", "replace")
        self.offset = end
        return text

    def value(self, kind: int) -> object:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self._array(self.scalar("I"), self.scalar("Q"))
        if kind in SCALARS:
            return self.scalar(SCALARS[kind])
        raise ValueError(f"value type {kind}")

    def _array(self, kind: int, count: int) -> list[object]:
        if kind in SCALARS:
            layout = f"<{count}{SCALARS[kind]}"
            values = list(struct.unpack_from(layout, self._buffer, self.offset))
            self.offset += struct.calcsize(layout)
            return values
        return [self.value(kind) for _ in range(count)]


def _read_counts(reader: _Reader, path: Path) -> tuple[int, int]:
    if reader.scalar("I") != int.from_bytes(b"GGUF", "little"):
        raise ModelError(f"{path}: not a GGUF file")
    version = reader.scalar("I")
    if version not in SUPPORTED_VERSIONS:
        raise ModelError(f"{path}: GGUF version {version} is not supported; 2 and 3 are")
    return reader.scalar("Q"), reader.scalar("Q")


def _read_entry(reader: _Reader) -> _Entry:
    name = reader.string()
    dimensions = tuple(reader.scalar("Q") for _ in range(reader.scalar("I")))
    return _Entry(name, dimensions, reader.scalar("I"), reader.scalar("Q"))


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
