"""What a step costs: a base for reading the weights, and as much again for each token computed.

    seconds = slope * (base + tokens)

The base, in tokens, is all that a choice between few and many tokens depends on. It is fitted to
the steps that were measured, the latest weighing most.
"""

from dataclasses import dataclass

SMALL_STEP = 32  # tokens; beyond, other costs rule than where drafts are decided upon
MEMORY = 0.99  # weight of a measurement after one more
FEWEST = 32.0  # measurements, by weight, before the fit is believed
LEAST_SPREAD = 0.5  # variance of the step's tokens below which there is no slope to see
BASES = (2.0, 32.0)  # a fit beyond either is noise
USUAL_BASE = 4.0  # a small model on a CPU


@dataclass(slots=True)
class StepCost:
    """Decayed sums over the measured steps (x tokens, y seconds), and the base of the last good fit."""

    base: float = USUAL_BASE
    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def observe(self, num_tokens: int, seconds: float) -> None:
        """Take in one measured step; large ones are left out."""
        if not 0 < num_tokens <= SMALL_STEP:
            return
        self.weight = self.weight * MEMORY + 1
        self.x = self.x * MEMORY + num_tokens
        self.y = self.y * MEMORY + seconds
        self.xx = self.xx * MEMORY + num_tokens**2
        self.xy = self.xy * MEMORY + num_tokens * seconds
        self._fit()

    def _fit(self) -> None:
        """Least squares. A slope that is not above zero says that tokens cost nothing beside the base."""
        mean_x, mean_y = self.x / self.weight, self.y / self.weight
        spread = self.xx / self.weight - mean_x**2
        if self.weight < FEWEST or spread < LEAST_SPREAD:
            return
        slope = (self.xy / self.weight - mean_x * mean_y) / spread
        low, high = BASES
        self.base = min(max(mean_y / slope - mean_x, low), high) if slope > 0 else high
