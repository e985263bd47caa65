"""The key-value part of a GGUF file, read alone: the tensors behind it are left untouched."""

import mmap
import struct
from pathlib import Path

from engine.errors import ModelError
from engine.gguf_reader import GGUFReader, GGUFValue


def read_gguf_metadata(path: Path) -> dict[str, GGUFValue]:
    """Every key of the file with its value. Raises ModelError where it is no GGUF file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data, path)
    except (OSError, ValueError) as error:  # mmap refuses an empty file with ValueError
        raise ModelError(f"{path}: cannot be read as GGUF: {error}") from error


def _read(data: mmap.mmap, path: Path) -> dict[str, GGUFValue]:
    with memoryview(data) as buffer:  # given back before the map is closed
        reader = GGUFReader(buffer, str(path))
        try:
            _, num_keys = reader.counts()
            return reader.metadata(num_keys)
        except (struct.error, ValueError, OverflowError, MemoryError) as error:
            raise ModelError(f"{path}: the GGUF file is cut off in its metadata") from error
