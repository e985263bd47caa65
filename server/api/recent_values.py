"""The newest values of something that is measured now and then."""

from collections import deque


class RecentValues:
    """Mutable. Keeps at most `max_values`, none older than `window` seconds when asked."""

    def __init__(self, window: float = 60.0, max_values: int = 512) -> None:
        self._window = window
        self._values: deque[tuple[float, float]] = deque(maxlen=max_values)

    def add(self, now: float, value: float) -> None:
        self._values.append((now, value))

    def at(self, now: float) -> tuple[float, ...]:
        """The values, oldest first."""
        while self._values and self._values[0][0] < now - self._window:
            self._values.popleft()
        return tuple(value for _, value in self._values)
