"""The symbols that a 64-bit Mach-O file needs and gives (mach-o/loader.h, mach-o/nlist.h)."""

import struct
from collections.abc import Iterator
from pathlib import Path

_MAGIC = 0xFEEDFACF
_HEADER_BYTES = 32
_LC_SYMTAB = 0x2
_LC_DYLD_INFO_ONLY = 0x80000022
_LC_DYLD_EXPORTS_TRIE = 0x80000033
_N_EXT = 0x01
_N_TYPE = 0x0E  # 0: undefined


class MachO:
    """Raises ValueError for any other kind of file."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        magic, *_, self._num_commands = struct.unpack_from("<5I", self._data)
        if magic != _MAGIC:
            raise ValueError(f"{path} is not a 64-bit Mach-O file")

    def undefined_symbols(self) -> set[str]:
        return set(self._undefined())

    def exported_symbols(self) -> set[str]:
        for command, at in self._commands():
            if command == _LC_DYLD_EXPORTS_TRIE:
                offset, size = struct.unpack_from("<2I", self._data, at + 8)
                return set(_names(self._data[offset : offset + size]))
            if command == _LC_DYLD_INFO_ONLY:
                offset, size = struct.unpack_from("<2I", self._data, at + 40)
                return set(_names(self._data[offset : offset + size]))
        return set()

    def _commands(self) -> Iterator[tuple[int, int]]:
        at = _HEADER_BYTES
        for _ in range(self._num_commands):
            command, size = struct.unpack_from("<2I", self._data, at)
            yield command, at
            at += size

    def _undefined(self) -> Iterator[str]:
        for command, at in self._commands():
            if command != _LC_SYMTAB:
                continue
            symbols, count, strings, _ = struct.unpack_from("<4I", self._data, at + 8)
            for i in range(count):
                name, kind, _, _, _ = struct.unpack_from("<IBBHQ", self._data, symbols + 16 * i)
                if kind & _N_EXT and kind & _N_TYPE == 0:
                    start = strings + name
                    yield self._data[start : self._data.index(b"\0", start)].decode()


def _names(trie: bytes) -> Iterator[str]:
    """The words of an export trie: a node holds what it exports, then its edges (text, offset)."""
    nodes = [(0, "")]
    while nodes:
        at, prefix = nodes.pop()
        terminal, at = _uleb(trie, at)
        if terminal:
            yield prefix
        at += terminal
        for _ in range(trie[at]):
            end = trie.index(b"\0", at + 1)
            text = trie[at + 1 : end].decode()
            offset, next_at = _uleb(trie, end + 1)
            nodes.append((offset, prefix + text))
            at = next_at - 1


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
