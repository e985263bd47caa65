"""Reads the values of a GGUF file one after another from a buffer; opening it is the caller's.

    magic "GGUF" | u32 version | u64 tensors | u64 keys | keys and values | tensor entries | data

All little-endian; strings are u64 length and UTF-8. (The format: ggml's docs/gguf.md.)
"""

import struct
from collections.abc import Mapping

from engine.errors import ModelError

GGUFScalar = bool | int | float | str
GGUFValue = GGUFScalar | list[GGUFScalar]

SUPPORTED_VERSIONS = (2, 3)
_SCALARS: Mapping[int, str] = {
    **{0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"},
    **{10: "Q", 11: "q", 12: "d"},
}
_STRING, _ARRAY = 8, 9


class GGUFReader:
    """`offset` is the place of the next value; `name` is what messages blame.

    Every method raises ValueError, or struct.error at the buffer's end, where the file is damaged.
    """

    def __init__(self, buffer: memoryview, name: str) -> None:
        self._buffer = buffer
        self._name = name
        self.offset = 0

    def counts(self) -> tuple[int, int]:
        """The header's numbers of tensors and of keys. Raises ModelError for other files."""
        if self.integer("I") != int.from_bytes(b"GGUF", "little"):
            raise ModelError(f"{self._name}: not a GGUF file")
        version = self.integer("I")
        if version not in SUPPORTED_VERSIONS:
            raise ModelError(f"{self._name}: GGUF version {version} is not supported; 2 and 3 are")
        return self.integer("Q"), self.integer("Q")

    def metadata(self, num_keys: int) -> dict[str, GGUFValue]:
        return {self.string(): self._value(self.integer("I")) for _ in range(num_keys)}

    def integer(self, code: str) -> int:
        """One number of struct's format `code`, "I" or "Q"."""
        return int(self._unpack(code)[0])

    def string(self) -> str:
        end = self.integer("Q") + self.offset
        if end > len(self._buffer):
            raise ValueError("a string ends after the file")
        text = bytes(self._buffer[self.offset : end]).decode("utf-8", "replace")
        self.offset = end
        return text

    def _value(self, kind: int) -> GGUFValue:
        if kind == _ARRAY:
            return self._array(self.integer("I"), self.integer("Q"))
        return self.string() if kind == _STRING else self._unpack(self._code(kind))[0]

    def _array(self, kind: int, count: int) -> list[GGUFScalar]:
        if kind == _STRING:
            return [self.string() for _ in range(count)]
        return list(self._unpack(f"{count}{self._code(kind)}"))

    def _code(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise ModelError(f"{self._name}: unknown GGUF value type {kind}")
        return _SCALARS[kind]

    def _unpack(self, layout: str) -> tuple[GGUFScalar, ...]:
        values: tuple[GGUFScalar, ...] = struct.unpack_from("<" + layout, self._buffer, self.offset)
        self.offset += struct.calcsize("<" + layout)
        return values
