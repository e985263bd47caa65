"""Weights rearranged once, at load, into the order in which the CPU kernels read them.

A weight [N, K] becomes panels of 16 neighbouring output rows, k-major inside a panel:

    panels[p, k, j] = weight[16 * p + j, k]        p < ceil(N / 16), rows past N are zeros

so one step along k loads 16 outputs' numbers side by side.
"""

from dataclasses import dataclass

import mlx.core as mx

PANEL = 16
QUANTIZED_BITS = (2, 4, 8)
QUANTIZED_GROUP_SIZES = (32, 64, 128)


@dataclass(frozen=True)
class PackedLinear:
    """A weight [N, K] for ``linear``, in its own dtype.

    ``panels`` [ceil(N / 16), K, 16]; ``bias`` float32 [N] or None.
    N is ``out_features``, K is ``in_features``.
    """

    panels: mx.array
    bias: mx.array | None
    out_features: int
    in_features: int

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.panels.nbytes + (0 if self.bias is None else self.bias.nbytes)


@dataclass(frozen=True)
class PackedQuantized:
    """An affinely quantised weight [N, K] for ``quantized_linear``.

    ``words`` uint32 [ceil(N / 16), K * bits / 32, 16]; ``scales`` and ``biases``
    [ceil(N / 16), K / group_size, 16] in their own dtype; ``bias`` float32 [N] or None.
    N is ``out_features``, K is ``in_features``.
    """

    words: mx.array
    scales: mx.array
    biases: mx.array
    bias: mx.array | None
    out_features: int
    in_features: int
    group_size: int
    bits: int

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.words, self.scales, self.biases)
        return sum(a.nbytes for a in arrays) + (0 if self.bias is None else self.bias.nbytes)


def pack_linear(weight: mx.array, bias: mx.array | None = None) -> PackedLinear:
    """Pack a float32, float16 or bfloat16 weight [N, K] and an optional bias [N].

    Raises ValueError for other shapes and dtypes.
    """
    _check_weight("pack_linear", weight, (mx.float32, mx.float16, mx.bfloat16))
    out_features, in_features = weight.shape
    return PackedLinear(
        panels=_to_panels(weight),
        bias=_to_bias("pack_linear", bias, out_features),
        out_features=out_features,
        in_features=in_features,
    )


def pack_quantized(  # noqa: PLR0913 (the parts of MLX's format)
    weight: mx.array,
    scales: mx.array,
    biases: mx.array,
    *,
    group_size: int,
    bits: int,
    bias: mx.array | None = None,
) -> PackedQuantized:
    """Pack a weight in MLX's affine format, as ``mx.quantize`` gives it.

    ``weight`` uint32 [N, K * bits / 32]; ``scales`` and ``biases`` [N, K / group_size]; ``bias`` [N].
    Supported are 2, 4 and 8 bits with groups of 32, 64 and 128; dequantise anything else and use
    ``pack_linear``.

    Raises ValueError for other bits, group sizes, shapes and dtypes.
    """
    if bits not in QUANTIZED_BITS or group_size not in QUANTIZED_GROUP_SIZES:
        raise ValueError(
            "[pack_quantized] expected 2, 4 or 8 bits and a group size of 32, 64 or 128, "
            f"got {bits} bits and a group size of {group_size}"
        )
    _check_weight("pack_quantized", weight, (mx.uint32,))
    out_features, in_features = weight.shape[0], weight.shape[1] * (32 // bits)
    groups = (out_features, in_features // group_size)
    if in_features % group_size or scales.shape != groups or biases.shape != groups:
        raise ValueError(
            f"[pack_quantized] expected scales and biases [{groups[0]}, {in_features} / {group_size}], "
            f"got {list(scales.shape)} and {list(biases.shape)}"
        )
    if scales.dtype != biases.dtype:
        raise ValueError(
            f"[pack_quantized] expected biases of {scales.dtype} like scales, got {biases.dtype}"
        )
    return PackedQuantized(
        words=_to_panels(weight),
        scales=_to_panels(scales),
        biases=_to_panels(biases),
        bias=_to_bias("pack_quantized", bias, out_features),
        out_features=out_features,
        in_features=in_features,
        group_size=group_size,
        bits=bits,
    )


def _check_weight(op: str, weight: mx.array, dtypes: tuple[mx.Dtype, ...]) -> None:
    if weight.ndim != 2 or weight.size == 0 or weight.dtype not in dtypes:
        names = " or ".join(str(dtype) for dtype in dtypes)
        raise ValueError(
            f"[{op}] expected a weight [N, K] of {names}, got {weight.dtype} {list(weight.shape)}"
        )


def _to_panels(rows: mx.array) -> mx.array:
    """[N, X] -> [ceil(N / 16), X, 16]."""
    num_rows, width = rows.shape
    padded = mx.pad(rows, [(0, -num_rows % PANEL), (0, 0)], stream=mx.cpu)
    panels = padded.reshape(-1, PANEL, width, stream=mx.cpu)
    return mx.contiguous(mx.transpose(panels, (0, 2, 1), stream=mx.cpu), stream=mx.cpu)


def _to_bias(op: str, bias: mx.array | None, out_features: int) -> mx.array | None:
    if bias is None:
        return None
    if bias.shape != (out_features,):
        raise ValueError(f"[{op}] expected a bias [{out_features}], got {list(bias.shape)}")
    return bias.astype(mx.float32, stream=mx.cpu)
