"""Builds the parts of a model from a checkpoint's weights, for this device."""

from collections.abc import Mapping

import mlx.core as mx

from engine.models.linear import Linear, Matrix, make_matrix, make_stack
from engine.models.norm import RMSNorm
from engine.models.row_ops import CPURowOps, MLXRowOps, RowOps
from engine.models.tensors import Weights


class Parameters:
    """Takes weights by module name and makes matrices and norms of them, in `dtype`.

    A linear layer gets its bias if the checkpoint has one.
    """

    def __init__(self, weights: Weights, dtype: mx.Dtype, *, on_cpu: bool) -> None:
        self._weights = weights
        self._on_cpu = on_cpu
        self.dtype = dtype
        self.ops: RowOps = CPURowOps() if on_cpu else MLXRowOps()

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
        return self._norm(self._vector(module, size), eps)

    def head_norm(self, heads_by_module: Mapping[str, int], head_dim: int, eps: float) -> RMSNorm:
        """One norm for heads side by side: each module's weight [D] for so many heads."""
        rows = [
            mx.broadcast_to(self._vector(module, head_dim), (heads, head_dim))
            for module, heads in heads_by_module.items()
        ]
        return self._norm(mx.concatenate(rows), eps)

    def drop(self, name: str) -> None:
        """Passes over a parameter that the model has no use for, if it is there."""
        self._weights.drop(name)

    def _vector(self, module: str, size: int) -> mx.array:
        return self._weights.take_vector(module + ".weight", size)

    def _norm(self, weight: mx.array, eps: float) -> RMSNorm:
        weight = weight.astype(self.dtype)
        mx.eval(weight)
        return RMSNorm(weight, eps, self.ops)

    def _bias(self, module: str, outputs: int, *, needed: bool) -> mx.array | None:
        name = module + ".bias"
        if needed or name in self._weights:
            return self._weights.take_vector(name, outputs)
        return None
