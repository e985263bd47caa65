"""Matrices of a model: y = residual + (norm(x) @ W.T + bias), and rows of W for an embedding.

On CPU the weights are packed once for metal's kernels and multiplied in float32, norm and residual
in the same operation: a row of the result depends on its row of x alone. On Metal MLX's own matmul
and quantized_matmul are used.
"""

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

import metal
from engine.models.affine_codes import widened
from engine.models.norm import RMSNorm
from engine.models.tensors import DenseWeight, QuantizedWeight, Weight

PACKED_BITS = (2, 4, 8)  # what metal's kernels read


class Linear(Protocol):
    """A weight [N, K], dense or quantised, with or without a bias [N]."""

    def __call__(
        self, x: mx.array, *, norm: RMSNorm | None = None, residual: mx.array | None = None
    ) -> mx.array:
        """[T, K] -> [T, N]; x is normed first, `residual` [T, N] added last."""
        ...


class Matrix(Linear, Protocol):
    """A linear layer whose weight also serves as an embedding."""

    def rows(self, ids: mx.array) -> mx.array:
        """Rows of the weight: int32 [T] -> [T, K]."""
        ...


def make_matrix(weight: Weight, bias: mx.array | None, dtype: mx.Dtype, *, on_cpu: bool) -> Matrix:
    """The matrix for this device; computes and gives `dtype` (float32 on CPU)."""
    if on_cpu:
        return PackedMatrix(weight, bias)
    if isinstance(weight, DenseWeight):
        return DenseMatrix(weight, bias, dtype)
    return AffineMatrix(weight, bias, dtype)


def make_stack(
    weights: Sequence[Weight],
    biases: Sequence[mx.array | None],
    dtype: mx.Dtype,
    *,
    on_cpu: bool,
) -> Linear:
    """The outputs of `weights` side by side: one product where the formats agree."""
    if not _same_format(weights):
        pairs = zip(weights, biases, strict=True)
        return SplitLinear([make_matrix(w, bias, dtype, on_cpu=on_cpu) for w, bias in pairs])
    return make_matrix(_joined(weights), _joined_bias(weights, biases), dtype, on_cpu=on_cpu)


class PackedMatrix:
    """A matrix in metal's packed layout; float32 in, float32 out."""

    def __init__(self, weight: Weight, bias: mx.array | None) -> None:
        self._packed = _pack(weight, bias)

    def __call__(
        self, x: mx.array, *, norm: RMSNorm | None = None, residual: mx.array | None = None
    ) -> mx.array:
        weight = None if norm is None else norm.weight
        eps = 0.0 if norm is None else norm.eps
        if isinstance(self._packed, metal.PackedLinear):
            return metal.linear(
                x, self._packed, norm_weight=weight, norm_eps=eps, residual=residual
            )
        return metal.quantized_linear(
            x, self._packed, norm_weight=weight, norm_eps=eps, residual=residual
        )

    def rows(self, ids: mx.array) -> mx.array:
        return metal.embedding(self._packed, ids)


class DenseMatrix:
    """A float matrix for MLX's matmul."""

    def __init__(self, weight: DenseWeight, bias: mx.array | None, dtype: mx.Dtype) -> None:
        self._values = weight.values.astype(dtype)
        self._bias = None if bias is None else bias.astype(dtype)
        mx.eval(self._values, self._bias)

    def __call__(
        self, x: mx.array, *, norm: RMSNorm | None = None, residual: mx.array | None = None
    ) -> mx.array:
        x = x if norm is None else norm(x)
        y = x @ self._values.T
        if self._bias is not None:
            y = y + self._bias
        return y if residual is None else residual + y

    def rows(self, ids: mx.array) -> mx.array:
        return self._values[ids]


class AffineMatrix:
    """A quantised matrix for MLX's quantized_matmul."""

    def __init__(self, weight: QuantizedWeight, bias: mx.array | None, dtype: mx.Dtype) -> None:
        self._codes = weight.codes
        self._scales = weight.scales.astype(dtype)
        self._biases = weight.biases.astype(dtype)
        self._bias = None if bias is None else bias.astype(dtype)
        self._group_size = weight.group_size
        self._bits = weight.bits
        mx.eval(self._codes, self._scales, self._biases, self._bias)

    def __call__(
        self, x: mx.array, *, norm: RMSNorm | None = None, residual: mx.array | None = None
    ) -> mx.array:
        y = mx.quantized_matmul(
            x if norm is None else norm(x),
            self._codes,
            scales=self._scales,
            biases=self._biases,
            transpose=True,
            group_size=self._group_size,
            bits=self._bits,
        )
        if self._bias is not None:
            y = y + self._bias
        return y if residual is None else residual + y

    def rows(self, ids: mx.array) -> mx.array:
        return mx.dequantize(
            self._codes[ids],
            scales=self._scales[ids],
            biases=self._biases[ids],
            group_size=self._group_size,
            bits=self._bits,
        )


class SplitLinear:
    """Linear layers of different formats, their outputs side by side."""

    def __init__(self, parts: Sequence[Linear]) -> None:
        self._parts = parts

    def __call__(
        self, x: mx.array, *, norm: RMSNorm | None = None, residual: mx.array | None = None
    ) -> mx.array:
        x = x if norm is None else norm(x)
        y = mx.concatenate([part(x) for part in self._parts], axis=-1)
        return y if residual is None else residual + y


def _pack(weight: Weight, bias: mx.array | None) -> metal.PackedLinear | metal.PackedQuantized:
    if isinstance(weight, DenseWeight):
        packed = metal.pack_linear(weight.values, bias)
        mx.eval(packed.panels, packed.bias)
        return packed
    weight = widened(weight, PACKED_BITS)
    quantized = metal.pack_quantized(
        weight.codes,
        weight.scales,
        weight.biases,
        group_size=weight.group_size,
        bits=weight.bits,
        bias=bias,
    )
    mx.eval(quantized.words, quantized.scales, quantized.biases, quantized.bias)
    return quantized


def _same_format(weights: Sequence[Weight]) -> bool:
    return len({_format(weight) for weight in weights}) == 1


def _format(weight: Weight) -> tuple[mx.Dtype, int, int]:
    if isinstance(weight, DenseWeight):
        return weight.values.dtype, 0, 0
    return weight.scales.dtype, weight.bits, weight.group_size


def _joined(weights: Sequence[Weight]) -> Weight:
    """Weights of one format, one below the other."""
    first = weights[0]
    if isinstance(first, DenseWeight):
        dense = [weight.values for weight in weights if isinstance(weight, DenseWeight)]
        return DenseWeight(mx.concatenate(dense))
    affine = [weight for weight in weights if isinstance(weight, QuantizedWeight)]
    return QuantizedWeight(
        mx.concatenate([weight.codes for weight in affine]),
        mx.concatenate([weight.scales for weight in affine]),
        mx.concatenate([weight.biases for weight in affine]),
        first.bits,
        first.group_size,
    )


def _joined_bias(weights: Sequence[Weight], biases: Sequence[mx.array | None]) -> mx.array | None:
    """The biases in one vector, zeros where one is missing; None if all are."""
    if all(bias is None for bias in biases):
        return None
    pairs = zip(weights, biases, strict=True)
    return mx.concatenate([mx.zeros(w.shape[0]) if bias is None else bias for w, bias in pairs])
