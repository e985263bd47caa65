"""What one request took. Pure."""

from dataclasses import dataclass
from itertools import pairwise

from server.bench.chunk import Usage
from server.bench.errors import RequestFailed


@dataclass(frozen=True, slots=True)
class Measured:
    """Times are of one clock, in seconds. `arrivals` has a time for each chunk of text.

    `usage` is the server's own count; None where it gives none. `failure` excludes a request from
    all figures but the number of failures.
    """

    started: float
    ended: float
    arrivals: tuple[float, ...]
    usage: Usage | None = None
    failure: RequestFailed | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def ttft(self) -> float:
        """To the first token."""
        return (self.arrivals[0] if self.arrivals else self.ended) - self.started

    @property
    def gaps(self) -> tuple[float, ...]:
        """Between each chunk of text and the next."""
        return tuple(later - earlier for earlier, later in pairwise(self.arrivals))

    @property
    def output_tokens(self) -> int:
        """As the server counts, or else a token for each chunk."""
        return self.usage.output_tokens if self.usage else len(self.arrivals)

    @property
    def seconds_per_token(self) -> float | None:
        """From the first token to the last, over the tokens after the first; None if there are none."""
        if len(self.arrivals) < 2 or self.output_tokens < 2:
            return None
        return (self.arrivals[-1] - self.arrivals[0]) / (self.output_tokens - 1)
