"""What the kernels refuse: always a ValueError that says what was expected and what came."""

import re
from collections.abc import Callable

import mlx.core as mx
import pytest

import metal
from tests.metal import batches
from tests.metal.batches import Batch, Shape

INT = mx.int32


def update(pages: mx.array, values: mx.array, slots: mx.array) -> Callable[[], object]:
    return lambda: metal.paged_cache_update(pages, values, slots)


PAGES, VALUES, SLOTS = mx.zeros((4, 2, 8, 16)), mx.zeros((3, 2, 16)), mx.zeros((3,), dtype=INT)

UPDATES = {
    "pages [P, H_kv, page_size, D], got float32 [4, 2, 8]": update(PAGES[..., 0], VALUES, SLOTS),
    "pages of float32 or float16 or bfloat16, got int32 [4, 2, 8, 16]": update(
        PAGES.astype(INT), VALUES, SLOTS
    ),
    "pages with no axis of length 0, got float32 [0, 2, 8, 16]": update(PAGES[:0], VALUES, SLOTS),
    "values [T, H_kv, D], got float32 [3, 2]": update(PAGES, VALUES[..., 0], SLOTS),
    "values with H_kv = 2 on axis 1, got float32 [3, 1, 16]": update(PAGES, VALUES[:, :1], SLOTS),
    "values with D = 16 on axis 2, got float32 [3, 2, 15]": update(PAGES, VALUES[..., 1:], SLOTS),
    "values of float32 or float16 or bfloat16, got int32 [3, 2, 16]": update(
        PAGES, VALUES.astype(INT), SLOTS
    ),
    "slot_mapping [T], got int32 [3, 1]": update(PAGES, VALUES, SLOTS[:, None]),
    "slot_mapping with T = 3 on axis 0, got int32 [2]": update(PAGES, VALUES, SLOTS[:2]),
    "slot_mapping of int32, got int64 [3]": update(PAGES, VALUES, SLOTS.astype(mx.int64)),
}


@pytest.mark.parametrize("message", UPDATES)
def test_paged_cache_update_refuses(message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"[paged_cache_update] expected {message}")):
        UPDATES[message]()


def attention(**changed: object) -> Callable[[], object]:
    """A good call with some arguments replaced."""

    def call() -> object:
        batch = batches.make(Shape(((20, 3), (9, 1))))
        arguments: dict[str, object] = {
            "q": batch.q,
            "key_pages": batch.key_pages,
            "value_pages": batch.value_pages,
            "block_table": batch.block_table,
            "context_lens": batch.context_lens,
            "query_start_locs": batch.query_start_locs,
            "scale": 0.1,
        }
        replaced = {
            name: change(batch) if callable(change) else change for name, change in changed.items()
        }
        return metal.paged_attention(**(arguments | replaced))  # type: ignore[arg-type]

    return call


def wide(batch: Batch) -> mx.array:
    return mx.zeros((*batch.key_pages.shape[:3], 257))


ATTENTIONS = {
    "q [T, H_q, D], got float32 [4, 4]": attention(q=lambda b: b.q[..., 0]),
    "q of float32 or float16 or bfloat16, got int32 [4, 4, 64]": attention(
        q=lambda b: b.q.astype(INT)
    ),
    "key_pages [P, H_kv, page_size, D], got float32 [6, 2, 16]": attention(
        key_pages=lambda b: b.key_pages[..., 0]
    ),
    "key_pages with D = 60 on axis 3, got float32 [6, 2, 16, 64]": attention(
        q=lambda b: b.q[..., :60]
    ),
    "a head size D of at most 256, got 257": attention(
        q=mx.zeros((4, 4, 257)), key_pages=wide, value_pages=wide
    ),
    "value_pages like key_pages, float32 [6, 2, 16, 64], got float32 [5, 2, 16, 64]": attention(
        value_pages=lambda b: b.value_pages[1:]
    ),
    "value_pages like key_pages, float32 [6, 2, 16, 64], got float16 [6, 2, 16, 64]": attention(
        value_pages=lambda b: b.value_pages.astype(mx.float16)
    ),
    "H_q to be a multiple of H_kv = 2, got 3": attention(q=lambda b: b.q[:, :3]),
    "key_pages row-contiguous, got float32 [6, 2, 16, 64]": attention(
        key_pages=lambda b: turned(b.key_pages)
    ),
    "block_table [B, max_pages], got int32 [3]": attention(block_table=lambda b: b.block_table[0]),
    "block_table of int32, got uint32 [2, 3]": attention(
        block_table=lambda b: b.block_table.astype(mx.uint32)
    ),
    "context_lens with B = 2 on axis 0, got int32 [1]": attention(
        context_lens=lambda b: b.context_lens[:1]
    ),
    "query_start_locs with B + 1 = 3 on axis 0, got int32 [2]": attention(
        query_start_locs=lambda b: b.query_start_locs[:2]
    ),
    "window of at least 1, got 0": attention(window=0),
    "soft_cap above 0, got 0.000000": attention(soft_cap=0.0),
    "sinks with H_q = 4 on axis 0, got float32 [3]": attention(sinks=mx.zeros(3)),
    "sinks [H_q], got float32 [1, 4]": attention(sinks=mx.zeros((1, 4))),
}


def turned(pages: mx.array) -> mx.array:
    strided = mx.contiguous(pages.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    mx.eval(strided)
    return strided


@pytest.mark.parametrize("message", ATTENTIONS)
def test_paged_attention_refuses(message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"[paged_attention] expected {message}")):
        ATTENTIONS[message]()


def packed() -> metal.PackedQuantized:
    words, scales, biases = mx.quantize(mx.zeros((20, 64)), group_size=32, bits=4)
    return metal.pack_quantized(words, scales, biases, group_size=32, bits=4)


LINEARS = {
    "[linear] expected x of float32, got float16 [2, 64]": lambda: metal.linear(
        mx.zeros((2, 64), dtype=mx.float16), metal.pack_linear(mx.zeros((20, 64)))
    ),
    "[linear] expected norm_weight with K = 64 on axis 0, got float32 [63]": lambda: metal.linear(
        mx.zeros((2, 64)), metal.pack_linear(mx.zeros((20, 64))), norm_weight=mx.ones(63)
    ),
    "[linear] expected residual [2, 20] like the result, got float32 [1, 20]": lambda: metal.linear(
        mx.zeros((2, 64)), metal.pack_linear(mx.zeros((20, 64))), residual=mx.ones((1, 20))
    ),
    "[quantized_linear] expected residual of float32, got float16 [2, 20]": lambda: (
        metal.quantized_linear(
            mx.zeros((2, 64)), packed(), residual=mx.ones((2, 20), dtype=mx.float16)
        )
    ),
    "[linear] expected x with K = 64 on axis 1, got float32 [2, 63]": lambda: metal.linear(
        mx.zeros((2, 63)), metal.pack_linear(mx.zeros((20, 64)))
    ),
    "[quantized_linear] expected x of float32, got bfloat16 [64]": lambda: metal.quantized_linear(
        mx.zeros((64,), dtype=mx.bfloat16), packed()
    ),
    "[quantized_linear] expected x with K = 64 on axis 1, got float32 [2, 96]": lambda: (
        metal.quantized_linear(mx.zeros((2, 96)), packed())
    ),
    "[embedding] expected ids of int32, got uint32 [2]": lambda: metal.embedding(
        packed(), mx.zeros((2,), dtype=mx.uint32)
    ),
    "[embedding] expected ids [T], got int32 [2, 1]": lambda: metal.embedding(
        packed(), mx.zeros((2, 1), dtype=INT)
    ),
    "[pack_linear] expected a weight [N, K] of mlx.core.float32": lambda: metal.pack_linear(
        mx.zeros((4, 4), dtype=INT)
    ),
    "[pack_linear] expected a bias [4], got [5]": lambda: metal.pack_linear(
        mx.zeros((4, 8)), mx.zeros(5)
    ),
    "[pack_quantized] expected a weight [N, K] of mlx.core.uint32": lambda: metal.pack_quantized(
        mx.zeros((4, 4)), mx.zeros((4, 1)), mx.zeros((4, 1)), group_size=32, bits=4
    ),
    "[pack_quantized] expected scales and biases [4, 64 / 32], got [4, 1] and [4, 1]": lambda: (
        metal.pack_quantized(
            mx.zeros((4, 8), dtype=mx.uint32),
            mx.zeros((4, 1)),
            mx.zeros((4, 1)),
            group_size=32,
            bits=4,
        )
    ),
}


def rotary_heads(  # noqa: PLR0913 - each case spoils one of them
    *,
    x: tuple[int, ...] = (2, 24),
    cos: tuple[int, ...] = (2, 4),
    sin: tuple[int, ...] = (2, 4),
    num_heads: int = 1,
    num_kv_heads: int = 1,
    norm_weight: tuple[int, ...] = (2, 8),
) -> tuple[mx.array, ...]:
    return metal.rotary_heads(
        mx.zeros(x),
        mx.zeros(cos),
        mx.zeros(sin),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        norm_weight=mx.ones(norm_weight),
        norm_eps=1e-6,
    )


ROWS = {
    "[rms_norm] expected x [T, D] or [T, H, D], got float32 [8]": lambda: metal.rms_norm(
        mx.zeros(8), mx.ones(8), 1e-5
    ),
    "[rms_norm] expected x of float32, got float16 [2, 8]": lambda: metal.rms_norm(
        mx.zeros((2, 8), dtype=mx.float16), mx.ones(8), 1e-5
    ),
    "[rms_norm] expected weight with D = 8 on axis 0, got float32 [7]": lambda: metal.rms_norm(
        mx.zeros((2, 8)), mx.ones(7), 1e-5
    ),
    "[rms_norm] expected weight with H = 3 on axis 0, got float32 [2, 8]": lambda: metal.rms_norm(
        mx.zeros((2, 3, 8)), mx.ones((2, 8)), 1e-5
    ),
    "[rms_norm] expected weight [D] or, for x [T, H, D], [H, D], got float32 [1, 8]": lambda: (
        metal.rms_norm(mx.zeros((2, 8)), mx.ones((1, 8)), 1e-5)
    ),
    "[rotary_heads] expected x with 3 heads of an even size on axis 1, got float32 [2, 21]": (
        lambda: rotary_heads(x=(2, 21))
    ),
    "[rotary_heads] expected at least one query head, got 0": lambda: rotary_heads(num_heads=0),
    "[rotary_heads] expected at least one KV head, got -1": lambda: rotary_heads(num_kv_heads=-1),
    "[rotary_heads] expected cos with D / 2 = 4 on axis 1, got float32 [2, 8]": (
        lambda: rotary_heads(cos=(2, 8))
    ),
    "[rotary_heads] expected sin with T = 2 on axis 0, got float32 [1, 4]": (
        lambda: rotary_heads(sin=(1, 4))
    ),
    "[rotary_heads] expected norm_weight with H_q + H_kv = 2 on axis 0, got float32 [3, 8]": (
        lambda: rotary_heads(norm_weight=(3, 8))
    ),
    "[rotary_heads] expected norm_weight with D = 8 on axis 1, got float32 [2, 4]": (
        lambda: rotary_heads(norm_weight=(2, 4))
    ),
    "[empty] expected sizes of at least 0 and fewer than 2^64 bytes, got [2, -1]": (
        lambda: metal.empty((2, -1), mx.float32)
    ),
    "[empty] expected sizes of at least 0 and fewer than 2^64 bytes, got [65536, 65536, 65536, 65536]": (
        lambda: metal.empty([65536] * 4, mx.float32)
    ),
    "[silu_mul] expected gate_up with an even last axis, got float32 [2, 7]": lambda: (
        metal.silu_mul(mx.zeros((2, 7)))
    ),
}


@pytest.mark.parametrize("message", ROWS)
def test_row_operations_refuse(message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        ROWS[message]()


@pytest.mark.parametrize("message", LINEARS)
def test_linear_operations_refuse(message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LINEARS[message]()


@pytest.mark.parametrize(("bits", "group_size"), [(3, 64), (5, 64), (6, 32), (4, 16), (4, 256)])
def test_other_quantisations_are_refused_with_what_is_supported(bits: int, group_size: int) -> None:
    expected = re.escape(
        "[pack_quantized] expected 2, 4 or 8 bits and a group size of 32, 64 or 128, "
        f"got {bits} bits and a group size of {group_size}"
    )
    with pytest.raises(ValueError, match=expected):
        metal.pack_quantized(
            mx.zeros((4, 64), dtype=mx.uint32),
            mx.zeros((4, 4)),
            mx.zeros((4, 4)),
            group_size=group_size,
            bits=bits,
        )
