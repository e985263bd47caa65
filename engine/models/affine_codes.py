"""Codes of affine-quantised weights: packing them, and widening them for kernels that need it."""

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx

from engine.models.tensors import QuantizedWeight


def pack_codes(codes: mx.array, bits: int) -> mx.array:
    """uint8 [N, K], 4 or 8 bits each -> uint32 [N, K * bits / 32], low bits first."""
    if bits == 4:
        codes = codes[:, 0::2] | (codes[:, 1::2] << 4)
    return mx.contiguous(codes).view(mx.uint32)


def widened(weight: QuantizedWeight, supported_bits: Sequence[int]) -> QuantizedWeight:
    """The same values with codes in the next supported width: 3 bits in 4, 5 and 6 in 8."""
    bits = min(width for width in supported_bits if width >= weight.bits)
    if bits == weight.bits:
        return weight
    codes = mx.dequantize(  # with scale 1 and bias 0 the values are the codes
        weight.codes,
        mx.ones(weight.scales.shape, mx.float16),
        mx.zeros(weight.scales.shape, mx.float16),
        weight.group_size,
        weight.bits,
    )
    return replace(weight, codes=pack_codes(codes.astype(mx.uint8), bits), bits=bits)
