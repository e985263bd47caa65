"""A straight line through measured times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Line:
    """seconds = base + slope * x; `residual` is the largest distance of a point from it, over the point."""

    base: float
    slope: float
    residual: float


def fit_line(xs: Sequence[float], seconds: Sequence[float]) -> Line:
    """The line with the least sum of squared relative distances; two points or more, all above 0."""
    values = np.asarray(seconds, dtype=np.float64)
    slope, base = (float(part) for part in np.polyfit(xs, values, 1, w=1 / values))
    distances = np.abs(base + slope * np.asarray(xs) - values) / values
    return Line(base, slope, float(distances.max()))
