"""GET /dashboard/snapshots: what one event of the stream tells. A field left out has its default."""

from typing import Literal

from server.api.schemas.base import ResponseModel


class PageRun(ResponseModel):
    """Pages one after the other: how many of each state. `tokens` is what they hold together,
    `holders` the most sequences that hold one of them, `owners` places in the pool's `owners`.
    """

    free: int = 0
    used: int = 0  # by one sequence
    shared: int = 0  # used by several
    cached: int = 0
    tokens: int = 0
    holders: int = 0
    owners: tuple[int, ...] = ()  # the first few


class PoolPicture(ResponseModel):
    """The pages in the order of their ids. `exact`: all pages of a run look alike; else the pool
    has too many runs, and each stands for a stretch of pages that may differ."""

    page_size: int
    num_pages: int
    exact: bool
    owners: tuple[str, ...]  # "request/index" of each sequence that holds pages
    runs: tuple[PageRun, ...]


class SequenceRow(ResponseModel):
    """The progress of one sequence. Counts are of tokens."""

    name: str  # as in the pool's `owners`
    state: Literal["running", "waiting"]
    prompt_tokens: int
    prompt_computed: int
    cached_tokens: int  # of the prompt, taken from the prefix cache
    generated_tokens: int
    max_tokens: int
    preemptions: int
    age_seconds: float


class Rates(ResponseModel):
    """Tokens a second over the last few snapshots; null before there are two."""

    generated_tokens: float | None
    prompt_tokens: float | None


class FirstToken(ResponseModel):
    """Seconds from a request's headers to its first token, of the last minute's requests."""

    median: float
    p95: float
    requests: int


class PageCounts(ResponseModel):
    free: int
    used: int  # shared ones too
    cached: int


class Snapshot(ResponseModel):
    """One moment of the server. At most a hundred rows are told; the counts tell all."""

    model: str
    status: Literal["starting", "ready", "draining", "dead"]
    requests_running: int
    requests_waiting: int
    rates: Rates
    first_token: FirstToken | None  # null where no request had one
    prefix_hit_rate: float | None  # of prompt tokens since the start; null before the first
    preemptions: int  # since the start
    pages: PageCounts
    pool: PoolPicture
    sequences: tuple[SequenceRow, ...]
