"""Calls the C++ compiler; a library is compiled once for a text and its flags."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class CompileError(Exception):
    """The compiler's errors, first line first."""


def compile_library(sources: Sequence[Path], flags: Sequence[str], folder: Path, name: str) -> Path:
    """A shared library in `folder`, from sources and objects. Raises CompileError."""
    return _compile(sources, [*flags, "-shared", "-fPIC"], folder, name, ".so")


def compile_object(source: Path, flags: Sequence[str], folder: Path) -> Path:
    """Raises CompileError."""
    return _compile([source], [*flags, "-c", "-fPIC"], folder, source.stem, ".o")


def _compile(
    sources: Sequence[Path], flags: Sequence[str], folder: Path, name: str, suffix: str
) -> Path:
    contents = b"".join(source.read_bytes() for source in sources)
    digest = hashlib.sha256(contents + "\0".join(flags).encode()).hexdigest()[:16]
    output = folder / f"{name}-{digest}{suffix}"
    if not output.exists():
        command = [_compiler(), *flags, *map(str, sources), "-o", str(output)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise CompileError(
                "\n".join(line for line in run.stderr.splitlines() if "error" in line)
            )
    return output


def _compiler() -> str:
    """The run-time library of the emulator relies on GCC's or Clang's sanitizer hooks."""
    for name in (os.environ.get("CXX", ""), "g++", "c++"):
        if name and shutil.which(name):
            return name
    raise CompileError("no C++ compiler: install g++")
