"""Where an array costs only what is written of it."""

import mlx.core as mx
import pytest

WHERE_PAGES_ARE_RESERVED = pytest.mark.skipif(
    mx.metal.is_available(), reason="where there is Metal, pages double"
)
