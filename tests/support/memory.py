"""What this process has in memory, and where an array costs only what is written of it."""

import resource
from pathlib import Path

import mlx.core as mx
import pytest

WHERE_PAGES_ARE_RESERVED = pytest.mark.skipif(
    mx.metal.is_available(), reason="where there is Metal, pages double"
)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()
