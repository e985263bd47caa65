"""The cases of the emulator on the devices of this machine: the CPU everywhere, the GPU on a Mac."""

from math import prod

import mlx.core as mx
import numpy as np
import pytest

from metal import paged_attention, paged_cache_update
from tests.metal_emulator.cases import CASES
from tests.metal_emulator.numbers import BFLOAT, Array, Element, decode
from tests.metal_emulator.paged_case import (
    AttentionCase,
    CacheUpdateCase,
    Layout,
    attention_data,
    cache_update_data,
)

NO_METAL = pytest.mark.skipif(not mx.metal.is_available(), reason="no Metal on this machine")
DEVICES = [
    pytest.param(mx.cpu, id="cpu"),
    pytest.param(mx.gpu, id="gpu", marks=NO_METAL),
]
ATTENTION = {name: case for name, case in CASES.items() if isinstance(case, AttentionCase)}
CACHE_UPDATE = {name: case for name, case in CASES.items() if isinstance(case, CacheUpdateCase)}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_gives_the_defined_numbers(name: str, device: mx.DeviceType) -> None:
    case = ATTENTION[name]
    data = attention_data(case, seed=1)
    with mx.stream(device):
        arrays = {
            key: to_mlx(data.arrays[key], case.page_type) for key in ("key_pages", "value_pages")
        }
        q_shape = (case.num_tokens, case.q_heads, case.head_dim)
        result = paged_attention(
            laid_out(data.arrays["q"], q_shape, case.q_layout, case.q_type),
            arrays["key_pages"],
            arrays["value_pages"],
            mx.array(data.arrays["block_table"].reshape(len(case.queries), case.max_pages)),
            mx.array(data.arrays["context_lens"]),
            mx.array(data.arrays["query_start_locs"]),
            scale=case.scale,
            window=case.window or None,
            soft_cap=case.soft_cap or None,
            sinks=mx.array(data.arrays["sinks"]) if case.sinks else None,
        )
        mx.eval(result)
    found = decode(to_numpy(result, case.q_type), case.q_type)
    np.testing.assert_allclose(
        found, data.expected, atol=case.q_type.tolerance, rtol=case.q_type.tolerance
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CACHE_UPDATE)
def test_an_update_writes_its_slots_and_nothing_else(name: str, device: mx.DeviceType) -> None:
    case = CACHE_UPDATE[name]
    arrays, expected = cache_update_data(case, seed=1)
    with mx.stream(device):
        shape = (len(case.slots), case.kv_heads, case.head_dim)
        written = paged_cache_update(
            to_mlx(arrays["pages"], case.page_type),
            laid_out(arrays["values"], shape, case.value_layout, case.value_type),
            mx.array(arrays["slot_mapping"]),
        )
        mx.eval(written)
    assert to_numpy(written, case.page_type).tobytes() == expected.tobytes()


@pytest.mark.parametrize("device", DEVICES)
def test_the_result_of_an_update_is_the_page_buffer_itself(device: mx.DeviceType) -> None:
    with mx.stream(device):
        pages = mx.zeros((2, 1, 4, 64))
        mx.eval(pages)
        written = paged_cache_update(pages, mx.ones((1, 1, 64)), mx.array([5], mx.int32))
        mx.eval(written)
        assert pages[1, 0, 1].sum().item() == 64


@pytest.mark.parametrize("device", DEVICES)
def test_a_reader_of_the_result_sees_every_update_before_it(device: mx.DeviceType) -> None:
    """One graph of many writes and reads, evaluated once: the returned arrays carry the order."""
    with mx.stream(device):
        pages = mx.zeros((1, 1, 16, 64))
        sums = []
        for step in range(16):
            slot = mx.array([step], mx.int32)
            pages = paged_cache_update(pages, mx.full((1, 1, 64), step + 1.0), slot)
            sums.append(attend_to(pages, step + 1))
        mx.eval(sums)
        assert [round(s.item(), 3) for s in sums] == [(n + 2) / 2 for n in range(16)]


def attend_to(pages: mx.array, tokens: int) -> mx.array:
    """The mean of the first tokens: a query of zeros weighs all alike."""
    table, zero = mx.array([[0]], mx.int32), mx.zeros((1, 1, 64))
    lens, starts = mx.array([tokens], mx.int32), mx.array([0, 1], mx.int32)
    return paged_attention(zero, pages, pages, table, lens, starts, scale=1.0)[0, 0, 0]


def to_mlx(array: Array, element: Element) -> mx.array:
    """bfloat16 comes as uint16."""
    return mx.array(array).view(mx.bfloat16) if element is BFLOAT else mx.array(array)


def laid_out(
    memory: Array, shape: tuple[int, int, int], layout: Layout, element: Element
) -> mx.array:
    """A view of [T, H, D] into the memory, as a slice or a transpose gives it."""
    flat = to_mlx(memory, element).flatten()
    return mx.as_strided(flat, shape, layout.strides(shape)) if prod(shape) else flat.reshape(shape)


def to_numpy(array: mx.array, element: Element) -> Array:
    return np.array(array.view(mx.uint16) if element is BFLOAT else array)
