"""Wider codes for kernels that do not read every width; the values stay exactly the same."""

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np

from engine.models.tensors import QuantizedWeight


def widened(weight: QuantizedWeight, supported_bits: Sequence[int]) -> QuantizedWeight:
    """The weight with its codes in the next supported width: 3 bits in 4, 5 and 6 in 8."""
    bits = min(width for width in supported_bits if width >= weight.bits)
    if bits == weight.bits:
        return weight
    words = np.array(weight.codes)  # [N, K * bits / 32], one stream of codes, low bits first
    stream = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    codes = stream.reshape(len(words), -1, weight.bits)  # [N, K, bits]
    wide = np.pad(codes, [(0, 0), (0, 0), (0, bits - weight.bits)])
    packed = np.packbits(wide.reshape(len(words), -1), axis=1, bitorder="little")
    return replace(weight, codes=mx.array(packed.view(np.uint32)), bits=bits)
