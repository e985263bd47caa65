"""An empty array costs address space, and memory only where something is written."""

import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

import metal
from server.bench.footprint import resident_bytes
from tests.support.memory import WHERE_PAGES_ARE_RESERVED

GIB = 1 << 30
REFUSED = """
import resource
import mlx.core as mx
import metal
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
try:
    mx.eval(metal.empty((16, 1 << 30), mx.int8))
except MemoryError:
    mx.eval(mx.ones(1000))
    print("refused", mx.get_active_memory() < 1 << 20)
"""


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_it_has_the_shape_and_dtype_asked_for(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    array = metal.empty(shape, dtype)
    mx.eval(array)
    assert (array.shape, array.dtype) == (shape, dtype)


@WHERE_PAGES_ARE_RESERVED
def test_a_large_one_is_resident_only_where_it_was_written() -> None:
    pages = metal.empty((1 << 16, 1, 16, 512), mx.float32)  # 2 GiB
    values = mx.ones((16, 1, 512))
    slots = mx.arange(0, 1 << 20, 1 << 16, dtype=mx.int32)  # 16 of them, far apart
    before = resident_bytes()
    written = metal.paged_cache_update(pages, values, slots)
    mx.eval(written)
    assert written.nbytes == 2 * GIB
    assert resident_bytes() - before < GIB // 8
    found = written[::4096, 0, 0]  # [16, 512]
    assert mx.all(found == 1)


@WHERE_PAGES_ARE_RESERVED
def test_pages_beyond_two_to_the_31_numbers_are_written_and_read() -> None:
    num_pages, heads, page_size, dim = 65_552, 2, 256, 64
    shape = (num_pages, heads, page_size, dim)
    assert np.prod(shape, dtype=np.int64) > 2**31
    keys = mx.ones((1, heads, dim), mx.float16)
    values = mx.full((1, heads, dim), 7.0, mx.float16)
    last = mx.array([(num_pages - 1) * page_size], mx.int32)
    result = metal.paged_attention(
        mx.ones((1, heads, dim)),
        metal.paged_cache_update(metal.empty(shape, mx.float16), keys, last),
        metal.paged_cache_update(metal.empty(shape, mx.float16), values, last),
        mx.array([[num_pages - 1]], mx.int32),
        mx.array([1], mx.int32),
        mx.array([0, 1], mx.int32),
        scale=1.0,
    )
    assert mx.all(result == 7)


@WHERE_PAGES_ARE_RESERVED
def test_address_space_that_the_system_refuses_is_a_memory_error() -> None:
    """In a process of its own, which goes on computing afterwards."""
    ended = subprocess.run(
        [sys.executable, "-c", REFUSED], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "refused True\n"), ended.stderr


OUT_OF_MEMORY = """
import resource
import mlx.core as mx
import metal
x = mx.zeros((1 << 18, 64))
mx.eval(x)
with open("/proc/self/statm") as statm:
    in_use = resource.getpagesize() * int(statm.read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (in_use + (1 << 24), resource.RLIM_INFINITY))
for compute in (
    lambda: metal.rms_norm(x, mx.ones(64), 1e-5),
    lambda: metal.silu_mul(x),
):
    try:
        mx.eval(compute())
    except MemoryError:
        print("refused")
"""


@WHERE_PAGES_ARE_RESERVED
def test_an_operation_without_memory_for_its_result_is_a_memory_error() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "refused\nrefused\n"), ended.stderr
