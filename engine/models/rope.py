"""Rotary position embedding: inverse frequencies and their scaling, in plain arithmetic.

Position p rotates the pair (x[i], x[i + D/2]) of a head by the angle p * f[i], with
f[i] = theta ** (-2 i / D) before scaling (Su et al., RoFormer, arXiv 2104.09864).
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Position interpolation: every frequency divided by `factor` (arXiv 2306.15595)."""

    factor: float

    def frequencies(self, base: list[float], theta: float) -> list[float]:  # noqa: ARG002
        return [frequency / self.factor for frequency in base]


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Llama 3.1: long waves divided by `factor`, short ones kept, a ramp between the two."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: int

    def frequencies(self, base: list[float], theta: float) -> list[float]:  # noqa: ARG002
        return [self._scaled(frequency) for frequency in base]

    def _scaled(self, frequency: float) -> float:
        turns = self.original_max_positions * frequency / (2 * math.pi)
        span = self.high_freq_factor - self.low_freq_factor
        kept = min(max((turns - self.low_freq_factor) / span, 0.0), 1.0)
        return (1 - kept) * frequency / self.factor + kept * frequency


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """YaRN, "NTK by parts" (arXiv 2309.00071): a ramp over the dimensions, not the waves.

    `attention_factor` multiplies cos and sin; None means the paper's 0.1 ln(factor) + 1.
    """

    factor: float
    original_max_positions: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    def frequencies(self, base: list[float], theta: float) -> list[float]:
        low, high = self._ramp_ends(2 * len(base), theta)
        scaled = []
        for index, frequency in enumerate(base):
            interpolated = min(max((index - low) / (high - low), 0.0), 1.0)
            scaled.append(frequency * (interpolated / self.factor + 1 - interpolated))
        return scaled

    def _ramp_ends(self, head_dim: int, theta: float) -> tuple[float, float]:
        low = self._dimension_of(self.beta_fast, head_dim, theta)
        high = self._dimension_of(self.beta_slow, head_dim, theta)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, head_dim - 1)
        return low, high if high != low else high + 0.001  # a ramp of no width divides by zero

    def _dimension_of(self, rotations: float, head_dim: int, theta: float) -> float:
        waves = self.original_max_positions / (rotations * 2 * math.pi)
        return head_dim * math.log(waves) / (2 * math.log(theta))


@dataclass(frozen=True, slots=True)
class DivisorScaling:
    """Divisors given by the checkpoint, one per frequency (GGUF's rope_freqs tensor)."""

    divisors: tuple[float, ...]

    def frequencies(self, base: list[float], theta: float) -> list[float]:  # noqa: ARG002
        return [frequency / divisor for frequency, divisor in zip(base, self.divisors, strict=True)]


RopeScaling = LinearScaling | Llama3Scaling | YarnScaling | DivisorScaling


@dataclass(frozen=True, slots=True)
class Rope:
    """The rotary embedding of a model; `head_dim` is even and rotates whole."""

    head_dim: int
    theta: float
    scaling: RopeScaling | None = None

    def inverse_frequencies(self) -> list[float]:
        """The D/2 angles per position step, in radians."""
        pairs = range(self.head_dim // 2)
        base = [self.theta ** (-2 * pair / self.head_dim) for pair in pairs]
        return base if self.scaling is None else self.scaling.frequencies(base, self.theta)

    def attention_factor(self) -> float:
        """What cos and sin are multiplied by."""
        if not isinstance(self.scaling, YarnScaling):
            return 1.0
        if self.scaling.attention_factor is not None:
            return self.scaling.attention_factor
        return yarn_attention_factor(self.scaling.factor)

    def extended_context(self, max_positions: int) -> int:
        """The context in tokens, given the checkpoint's stated maximum.

        Llama 3 states the extended context; linear and YaRN checkpoints state the original one,
        or, with YaRN, either.
        """
        if isinstance(self.scaling, LinearScaling):
            return int(max_positions * self.scaling.factor)
        if isinstance(self.scaling, YarnScaling):
            extended = self.scaling.original_max_positions * self.scaling.factor
            return max(max_positions, int(extended))
        return max_positions


def yarn_attention_factor(factor: float, magnitude: float = 1.0) -> float:
    """YaRN's temperature, as a factor of cos and sin: 0.1 m ln(factor) + 1."""
    return 1.0 if factor <= 1 else 0.1 * magnitude * math.log(factor) + 1.0
