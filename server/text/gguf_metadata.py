"""The key-value part of a GGUF file, read alone: the tensors behind it are left untouched."""

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path

from engine.errors import ModelError

GGUFScalar = bool | int | float | str
GGUFValue = GGUFScalar | list[GGUFScalar]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_FORMATS: Mapping[int, str] = {  # struct formats of the value types, little-endian
    **{0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"},
    **{10: "<Q", 11: "<q", 12: "<d"},
}


def read_gguf_metadata(path: Path) -> dict[str, GGUFValue]:
    """Every key of the file with its value. Raises ModelError where it is no GGUF file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, path).metadata()
    except (OSError, ValueError) as error:  # mmap refuses an empty file with ValueError
        raise ModelError(f"{path}: cannot be read as GGUF: {error}") from error


class _Reader:
    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data = data
        self._path = path
        self._place = 0

    def metadata(self) -> dict[str, GGUFValue]:
        if self._take(4) != _MAGIC:
            raise ModelError(f"{self._path}: not a GGUF file")
        version = self._number("<I")
        if version not in _VERSIONS:
            raise ModelError(f"{self._path}: GGUF version {version}; 2 and 3 are supported")
        self._number("<Q")  # tensors
        return {self._string(): self._value() for _ in range(int(self._number("<Q")))}

    def _value(self) -> GGUFValue:
        kind = int(self._number("<I"))
        return self._array() if kind == _ARRAY else self._scalar(kind)

    def _array(self) -> list[GGUFScalar]:
        kind, count = int(self._number("<I")), int(self._number("<Q"))
        if kind == _STRING:
            return [self._string() for _ in range(count)]
        if kind not in _FORMATS:
            raise ModelError(f"{self._path}: unknown GGUF value type {kind}")
        item = _FORMATS[kind]
        return [
            value
            for (value,) in struct.iter_unpack(item, self._take(count * struct.calcsize(item)))
        ]

    def _scalar(self, kind: int) -> GGUFScalar:
        if kind == _STRING:
            return self._string()
        if kind not in _FORMATS:
            raise ModelError(f"{self._path}: unknown GGUF value type {kind}")
        return self._number(_FORMATS[kind])

    def _string(self) -> str:
        return self._take(int(self._number("<Q"))).decode("utf-8", "replace")

    def _number(self, item: str) -> bool | int | float:
        value: bool | int | float = struct.unpack(item, self._take(struct.calcsize(item)))[0]
        return value

    def _take(self, count: int) -> bytes:
        taken = self._data[self._place : self._place + count]
        if len(taken) != count:
            raise ModelError(f"{self._path}: the GGUF file is cut off in its metadata")
        self._place += count
        return taken
