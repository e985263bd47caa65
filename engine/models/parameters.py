"""Builds the parts of a model from a checkpoint's weights, for this device."""

from collections.abc import Mapping

import mlx.core as mx

from engine.models.layers import RMSNorm
from engine.models.linear import Linear, Matrix, make_matrix, make_stack
from engine.models.tensors import Weights


class Parameters:
    """Takes weights by module name and makes matrices and norms of them, in `dtype`.

    A linear layer gets its bias if the checkpoint has one.
    """

    def __init__(self, weights: Weights, dtype: mx.Dtype, *, on_cpu: bool) -> None:
        self._weights = weights
        self._on_cpu = on_cpu
        self.dtype = dtype

    def matrix(self, module: str, outputs: int, inputs: int) -> Matrix:
        weight = self._weights.take(module + ".weight", outputs, inputs)
        bias = self._bias(module, outputs, needed=False)
        return make_matrix(weight, bias, self.dtype, on_cpu=self._on_cpu)

    def stack(
        self, outputs_by_module: Mapping[str, int], inputs: int, *, needs_bias: bool = False
    ) -> Linear:
        """Linear layers of one input, their outputs side by side."""
        weights, biases = [], []
        for module, outputs in outputs_by_module.items():
            weights.append(self._weights.take(module + ".weight", outputs, inputs))
            biases.append(self._bias(module, outputs, needed=needs_bias))
        return make_stack(weights, biases, self.dtype, on_cpu=self._on_cpu)

    def norm(self, module: str, size: int, eps: float) -> RMSNorm:
        return RMSNorm(self.vector(module + ".weight", size), eps)

    def vector(self, name: str, size: int) -> mx.array:
        values = self._weights.take_vector(name, size).astype(self.dtype)
        mx.eval(values)
        return values

    def drop(self, name: str) -> None:
        """Passes over a parameter that the model has no use for, if it is there."""
        self._weights.drop(name)

    def _bias(self, module: str, outputs: int, *, needed: bool) -> mx.array | None:
        name = module + ".bias"
        if needed or name in self._weights:
            return self._weights.take_vector(name, outputs)
        return None
