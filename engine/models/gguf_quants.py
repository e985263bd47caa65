"""ggml's block formats -> dense floats, or MLX's affine layout with the very same values.

A block of 32 values holds a scale d (and a minimum m): value = d * (code - zero) or d * code + m.
Both are affine, so the codes stay as they are and only move; nothing is rounded. 5-bit codes take
8 bits. Q2_K, Q3_K and Q6_K have groups of 16, below MLX's smallest, and become float16.
(The formats: ggml's ggml-common.h and ggml-quants.c.)

Below, blocks are uint8 [N, B, block_bytes]: N rows of B blocks.
"""

from collections.abc import Callable, Mapping

import mlx.core as mx

from engine.models.affine_codes import pack_codes
from engine.models.gguf_types import GGMLType
from engine.models.tensors import DenseWeight, QuantizedWeight, Weight

GROUP_SIZE = 32


def decode(kind: GGMLType, raw: mx.array, shape: tuple[int, ...]) -> Weight | None:
    """A weight of `shape` from its bytes, uint8; None if the type is not supported."""
    if kind.name in _FLOATS:
        return DenseWeight(raw.view(_FLOATS[kind.name]).reshape(shape))
    if kind.name not in _BLOCKS:
        return None
    return _BLOCKS[kind.name](raw.reshape(shape[0], -1, kind.block_bytes))


def supported_types() -> str:
    """The names of the types that `decode` knows, for messages."""
    return ", ".join([*_FLOATS, *_BLOCKS])


def _q4_0(blocks: mx.array) -> Weight:
    d = _half(blocks, 0)
    return _affine(_bit_fields(blocks[..., 2:18], 4), d, -8 * d, 4)


def _q4_1(blocks: mx.array) -> Weight:
    return _affine(_bit_fields(blocks[..., 4:20], 4), _half(blocks, 0), _half(blocks, 2), 4)


def _q5_0(blocks: mx.array) -> Weight:
    d = _half(blocks, 0)
    return _affine(_five_bits(blocks[..., 6:22], blocks[..., 2:6]), d, -16 * d, 8)


def _q5_1(blocks: mx.array) -> Weight:
    codes = _five_bits(blocks[..., 8:24], blocks[..., 4:8])
    return _affine(codes, _half(blocks, 0), _half(blocks, 2), 8)


def _q8_0(blocks: mx.array) -> Weight:
    d = _half(blocks, 0)
    return _affine(blocks[..., 2:34] ^ 128, d, -128 * d, 8)  # int8 c is code c + 128


def _q2_k(blocks: mx.array) -> Weight:
    sixteenths = blocks[..., :16]  # per group of 16: low half the scale, high half the minimum
    codes = _bit_fields(blocks[..., 16:80], 2, run=32)
    scales = _wide_half(blocks, 80) * (sixteenths & 15)
    minima = _wide_half(blocks, 82) * (sixteenths >> 4)
    return _dense(codes, scales, minima)


def _q3_k(blocks: mx.array) -> Weight:
    low = _bit_fields(blocks[..., 32:96], 2, run=32)
    high = _bit_fields(blocks[..., :32], 1)  # the third bit
    codes = (low | (high << 2)).astype(mx.float32) - 4
    packed = blocks[..., 96:108]  # 16 scales: their low 4 bits, then their high 2
    sixbit = _bit_fields(packed[..., :8], 4) | (_bit_fields(packed[..., 8:], 2) << 4)
    scales = _wide_half(blocks, 108) * (sixbit.astype(mx.float32) - 32)
    return _dense(codes, scales, mx.zeros_like(scales))


def _q4_k(blocks: mx.array) -> Weight:
    scales, biases = _k_scales(blocks)
    return _affine(_bit_fields(blocks[..., 16:144], 4, run=32), scales, biases, 4)


def _q5_k(blocks: mx.array) -> Weight:
    scales, biases = _k_scales(blocks)
    high = _bit_fields(blocks[..., 16:48], 1)
    codes = _bit_fields(blocks[..., 48:176], 4, run=32) | (high << 4)
    return _affine(codes, scales, biases, 8)


def _q6_k(blocks: mx.array) -> Weight:
    low = _bit_fields(blocks[..., :128], 4, run=64)
    high = _bit_fields(blocks[..., 128:192], 2, run=32)
    codes = (low | (high << 4)).astype(mx.float32) - 32
    scales = _wide_half(blocks, 208) * blocks[..., 192:208].view(mx.int8)
    return _dense(codes, scales, mx.zeros_like(scales))


def _half(blocks: mx.array, start: int) -> mx.array:
    """The float16 at byte `start` of each block: [N, B]."""
    pairs = mx.contiguous(blocks[..., start : start + 2])
    halves: mx.array = pairs.view(mx.float16).squeeze(-1)
    return halves


def _wide_half(blocks: mx.array, start: int) -> mx.array:
    """The same in float32, for products with the scales of groups: [N, B, 1]."""
    return _half(blocks, start).astype(mx.float32)[..., None]


def _bit_fields(packed: mx.array, bits: int, run: int | None = None) -> mx.array:
    """Codes packed by runs: in each run of `run` bytes first all lowest fields, then the next.

    [N, B, bytes] -> uint8 [N, B, bytes * 8 / bits]; without `run` all bytes are one run.
    """
    rows, blocks, size = packed.shape
    runs = packed.reshape(rows, blocks, -1, 1, run or size)
    shifts = mx.arange(0, 8, bits, dtype=mx.uint8)[:, None]
    mask = (1 << bits) - 1
    return ((runs >> shifts) & mask).reshape(rows, blocks, -1)


def _five_bits(low: mx.array, high: mx.array) -> mx.array:
    """[N, B, 16] bytes of nibbles, [N, B, 4] bytes of fifth bits -> uint8 [N, B, 32]."""
    return _bit_fields(low, 4) | (_bit_fields(high, 1, run=1) << 4)


def _k_scales(blocks: mx.array) -> tuple[mx.array, mx.array]:
    """Scales d * s and biases -dmin * m of the 8 groups of a K block: float32 [N, B, 8].

    s and m have 6 bits: groups 0-3 have theirs in bytes 0-3 and 4-7; groups 4-7 have the low four
    bits in bytes 8-11 and the high two at the top of bytes 0-7.
    """
    s, m, mixed = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    scales = mx.concatenate([s & 63, (mixed & 15) | ((s >> 6) << 4)], axis=-1)
    minima = mx.concatenate([m & 63, (mixed >> 4) | ((m >> 6) << 4)], axis=-1)
    return _wide_half(blocks, 0) * scales, -_wide_half(blocks, 2) * minima


def _affine(codes: mx.array, scales: mx.array, biases: mx.array, bits: int) -> Weight:
    rows = len(codes)
    words = pack_codes(codes.reshape(rows, -1), bits)
    return QuantizedWeight(
        words, scales.reshape(rows, -1), biases.reshape(rows, -1), bits, GROUP_SIZE
    )


def _dense(codes: mx.array, scales: mx.array, minima: mx.array) -> Weight:
    """scale * code - minimum in groups of 16: codes [N, B, 256], the others [N, B, 16]."""
    groups = codes.reshape(*scales.shape, 16).astype(mx.float32)
    values = scales[..., None] * groups - minima[..., None]
    return DenseWeight(values.reshape(len(codes), -1).astype(mx.float16))


_FLOATS: Mapping[str, mx.Dtype] = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}
_BLOCKS: Mapping[str, Callable[[mx.array], Weight]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
