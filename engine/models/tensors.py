"""Weights as checkpoints store them, and the seam between a checkpoint's format and the models."""

from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from engine.errors import ModelError
from engine.models.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """A float matrix [N, K] (N outputs of K inputs) or vector [N]."""

    values: mx.array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """An affine-quantised matrix [N, K]: value = code * scale + bias, in groups along K.

    codes uint32 [N, K * bits / 32], scales and biases [N, K / group_size]; the layout of
    mx.quantize.
    """

    codes: mx.array
    scales: mx.array
    biases: mx.array
    bits: int
    group_size: int

    @property
    def shape(self) -> tuple[int, ...]:
        rows, groups = self.scales.shape
        return rows, groups * self.group_size


Weight = DenseWeight | QuantizedWeight


class Checkpoint(Protocol):
    """One opened checkpoint, its parameters under Hugging Face's names ("...q_proj.weight")."""

    @property
    def label(self) -> str:
        """What error messages call it."""
        ...

    @property
    def config(self) -> ModelConfig: ...

    @property
    def dtype(self) -> mx.Dtype:
        """The float type the checkpoint is meant to be computed in."""
        ...

    def names(self) -> frozenset[str]: ...

    def read(self, name: str) -> Weight:
        """Reads one of `names()`; the checkpoint keeps no reference to what it returned."""
        ...


class Weights:
    """Takes a checkpoint's parameters one by one, and knows which nobody took."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._left = set(checkpoint.names())

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, *shape: int) -> Weight:
        """The parameter `name`; raises ModelError if it is missing or of another shape."""
        label = self._checkpoint.label
        if name not in self._left:
            raise ModelError(f"{label}: tensor {name} is missing")
        self._left.remove(name)
        weight = self._checkpoint.read(name)
        if weight.shape != shape:
            raise ModelError(
                f"{label}: tensor {name} must have shape {list(shape)}, got {list(weight.shape)}"
            )
        return weight

    def take_vector(self, name: str, size: int) -> mx.array:
        """A parameter that is never quantised: a norm or a bias, [size]."""
        weight = self.take(name, size)
        assert isinstance(weight, DenseWeight)  # quantised weights have two dimensions
        return weight.values

    def drop(self, name: str) -> None:
        """Passes over a parameter that the model has no use for, if it is there."""
        self._left.discard(name)

    def finish(self) -> None:
        """Raises ModelError if the checkpoint holds parameters that nobody took."""
        if self._left:
            first, more = min(self._left), len(self._left) - 1
            others = f" (and {more} more)" if more else ""
            raise ModelError(
                f"{self._checkpoint.label}: tensor {first}{others} has no place in a "
                f"{self._checkpoint.config.model_type} model"
            )
