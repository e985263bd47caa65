"""What is remembered of one HTTP request, for its log line and its metrics."""

import re
from collections.abc import Callable
from enum import StrEnum

from server.api.metrics import Metrics

MAX_PATH = 200  # characters of a client's path that the log repeats
WORD = re.compile(r"[A-Za-z0-9._/-]+")


class Outcome(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # the client left first
    REFUSED = "refused"  # a wrong request, or no room for it
    FAILED = "failed"  # a fault, a time limit or a slow reader ended it


class RequestRecord:
    """Times are in seconds of a monotonic clock. `outcome` is None until somebody knows better
    than the status code of the response."""

    def __init__(
        self, request_id: str, method: str, path: str, clock: Callable[[], float], metrics: Metrics
    ) -> None:
        self.request_id = request_id
        self.method = method
        self.path = path
        self.status: int | None = None
        self.outcome: Outcome | None = None
        self.is_generation = False
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.prompt_text: str | None = None  # only where prompts may be logged
        self.first_token_seconds: float | None = None  # since the headers were read
        self.total_seconds: float | None = None  # likewise, once finished
        self._clock = clock
        self._metrics = metrics
        self._began = clock()
        self._last_token: dict[int, float] = {}  # of each choice, when

    @property
    def age_seconds(self) -> float:
        """Since the headers were read."""
        return self._clock() - self._began

    def count_token(self, choice: int) -> None:
        now = self._clock()
        self.completion_tokens += 1
        if self.first_token_seconds is None:
            self.first_token_seconds = now - self._began
            self._metrics.first_token(self.first_token_seconds, now)
        if choice in self._last_token:
            self._metrics.inter_token.observe(now - self._last_token[choice])
        self._last_token[choice] = now

    def fields(self) -> dict[str, object]:
        """What the log tells of the request; never its text unless that was asked for."""
        fields: dict[str, object] = {
            "request_id": self.request_id,
            "method": self.method,
            "path": self.path[:MAX_PATH],
            "status": self.status,
            "outcome": self.outcome.value if self.outcome else None,
        }
        if self.total_seconds is not None:
            fields["seconds"] = round(self.total_seconds, 4)
        if self.is_generation:
            fields["prompt_tokens"] = self.prompt_tokens
            fields["completion_tokens"] = self.completion_tokens
        if self.first_token_seconds is not None:
            fields["first_token_seconds"] = round(self.first_token_seconds, 4)
        if self.prompt_text is not None:
            fields["prompt"] = self.prompt_text
        return fields

    def __str__(self) -> str:
        return " ".join(f"{name}={_shown(value)}" for name, value in self.fields().items())

    def finish(self) -> None:
        """Settles the outcome and counts a generation; called once, when the response is over."""
        if self.outcome is None:
            self.outcome = _outcome_of(self.status)
        self.total_seconds = self._clock() - self._began
        if self.is_generation:
            self._metrics.requests.labels(outcome=self.outcome.value).inc()
            self._metrics.request_seconds.observe(self.total_seconds)


def _shown(value: object) -> str:
    """One word; whatever a client could have written is quoted and escaped."""
    return ascii(value) if isinstance(value, str) and not WORD.fullmatch(value) else str(value)


def _outcome_of(status: int | None) -> Outcome:
    if status is None:
        return Outcome.CANCELLED
    if status < 400:
        return Outcome.COMPLETED
    refused = status < 500 or status == 503
    return Outcome.REFUSED if refused else Outcome.FAILED
