"""ggml's block formats -> dense floats, or MLX's affine layout with the very same values.

A block of 32 values holds a scale d (and a minimum m): value = d * (code - zero) or d * code + m.
Both are affine, so the codes stay as they are and only move; nothing is rounded. The 5-bit codes
take 8 bits. Q2_K, Q3_K and Q6_K have groups of 16, below MLX's smallest, and become float16.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.models.gguf_types import GGMLType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float16] | NDArray[np.float32]

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class AffineBlocks:
    """codes uint8 [N, K], below 2 ** bits; scales and biases [N, K / 32]."""

    codes: Bytes
    scales: Floats
    biases: Floats
    bits: int

    def words(self) -> NDArray[np.uint32]:
        """The codes packed low bits first: uint32 [N, K * bits / 32]."""
        if self.bits == 8:
            return np.ascontiguousarray(self.codes).view(np.uint32)
        packed = self.codes[:, 0::2] | self.codes[:, 1::2] << 4
        return np.ascontiguousarray(packed).view(np.uint32)


def affine_decoder(kind: GGMLType) -> Callable[[Bytes], AffineBlocks] | None:
    """What turns blocks uint8 [N, K / block_size, block_bytes] into affine form, if anything."""
    return _AFFINE.get(kind.name)


def dense_decoder(kind: GGMLType) -> Callable[[Bytes], Floats] | None:
    """What turns blocks uint8 [N, K / block_size, block_bytes] into floats [N, K], if anything."""
    return _DENSE.get(kind.name)


def supported_types() -> str:
    """The names of all types that can be decoded, for messages."""
    return ", ".join(["F32", "F16", "BF16", *_AFFINE, *_DENSE])


def _q4_0(blocks: Bytes) -> AffineBlocks:
    scales = _half(blocks, 0)
    return AffineBlocks(_rows(_nibbles(blocks[..., 2:18])), scales, -8 * scales, 4)


def _q4_1(blocks: Bytes) -> AffineBlocks:
    codes = _rows(_nibbles(blocks[..., 4:20]))
    return AffineBlocks(codes, _half(blocks, 0), _half(blocks, 2), 4)


def _q5_0(blocks: Bytes) -> AffineBlocks:
    scales = _half(blocks, 0)
    codes = _nibbles(blocks[..., 6:22]) | _fifth_bits(blocks[..., 2:6])
    return AffineBlocks(_rows(codes), scales, -16 * scales, 8)


def _q5_1(blocks: Bytes) -> AffineBlocks:
    codes = _nibbles(blocks[..., 8:24]) | _fifth_bits(blocks[..., 4:8])
    return AffineBlocks(_rows(codes), _half(blocks, 0), _half(blocks, 2), 8)


def _q8_0(blocks: Bytes) -> AffineBlocks:
    scales = _half(blocks, 0)
    codes = blocks[..., 2:34] ^ 0x80  # int8 c -> c + 128
    return AffineBlocks(_rows(codes), scales, -128 * scales, 8)


def _q4_k(blocks: Bytes) -> AffineBlocks:
    scales, biases = _k_scales(blocks)
    return AffineBlocks(_rows(_k_nibbles(blocks[..., 16:144])), scales, biases, 4)


def _q5_k(blocks: Bytes) -> AffineBlocks:
    scales, biases = _k_scales(blocks)
    high = blocks[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # [N, B, 8, 32]
    codes = _k_nibbles(blocks[..., 48:176]) | high << 4
    return AffineBlocks(_rows(codes), scales, biases, 8)


def _by_gguf_package(name: str) -> Callable[[Bytes], Floats]:
    def decode(blocks: Bytes) -> Floats:
        import gguf  # noqa: PLC0415 - a slow import that few files need

        rows = blocks.reshape(blocks.shape[0], -1)
        values = gguf.dequantize(rows, gguf.GGMLQuantizationType[name])
        return values.astype(np.float16)

    return decode


def _half(blocks: Bytes, start: int) -> NDArray[np.float16]:
    """The float16 at byte `start` of each block: [N, B]."""
    return np.ascontiguousarray(blocks[..., start : start + 2]).view(np.float16)[..., 0]


def _nibbles(packed: Bytes) -> Bytes:
    """[..., n] bytes -> [..., 2 n] codes: all the low halves, then all the high ones."""
    return np.concatenate([packed & 0x0F, packed >> 4], axis=-1)


def _fifth_bits(packed: Bytes) -> Bytes:
    """[N, B, 4] bytes -> [N, B, 32] values 0 or 16."""
    return np.unpackbits(packed, axis=-1, bitorder="little") << 4


def _k_nibbles(packed: Bytes) -> Bytes:
    """[N, B, 128] bytes -> [N, B, 8, 32]: each 32 bytes hold two neighbouring groups."""
    pairs = packed.reshape(*packed.shape[:2], 4, 32)
    return np.stack([pairs & 0x0F, pairs >> 4], axis=3).reshape(*packed.shape[:2], 8, 32)


def _k_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """The scales d * s and biases -dmin * m of a K block's 8 groups, float32 [N, 8 B].

    s and m are 6-bit: groups 0-3 have theirs in bytes 0-3 and 4-7; groups 4-7 have the low four
    bits in bytes 8-11 and the high two in the top of bytes 0-7.
    """
    low, middle, mixed = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    scales = np.concatenate([low & 63, mixed & 15 | low >> 6 << 4], axis=-1)
    minima = np.concatenate([middle & 63, mixed >> 4 | middle >> 6 << 4], axis=-1)
    d = _half(blocks, 0).astype(np.float32)[..., None]
    dmin = _half(blocks, 2).astype(np.float32)[..., None]
    return _rows(d * scales), _rows(-dmin * minima)


def _rows(values: NDArray[T]) -> NDArray[T]:
    return values.reshape(values.shape[0], -1)


_AFFINE = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
}
_DENSE = {name: _by_gguf_package(name) for name in ("Q2_K", "Q3_K", "Q6_K")}
