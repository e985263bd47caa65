"""Tokens a second, from the engine's counters at the last few moments."""

from collections import deque
from dataclasses import dataclass

from server.api.schemas.snapshot import Rates

MOMENTS = 5  # the newest ones; the rate is that between the first and the last of them
WINDOW = 5.0  # seconds; older ones say nothing of now


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """`seconds` of a monotonic clock, and tokens since the engine was made."""

    seconds: float
    generated: int
    prompt: int


class RateMeter:
    """Mutable: the newest moments."""

    def __init__(self) -> None:
        self._moments: deque[TokenCounts] = deque(maxlen=MOMENTS)

    def add(self, counts: TokenCounts) -> Rates:
        """The rates as of this moment."""
        self._moments.append(counts)
        while counts.seconds - self._moments[0].seconds > WINDOW:
            self._moments.popleft()
        first = self._moments[0]
        seconds = counts.seconds - first.seconds
        if seconds <= 0:
            return Rates(generated_tokens=None, prompt_tokens=None)
        return Rates(
            generated_tokens=round((counts.generated - first.generated) / seconds, 1),
            prompt_tokens=round((counts.prompt - first.prompt) / seconds, 1),
        )
