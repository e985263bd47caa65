"""What an engine tells of itself: one snapshot of gauges and counters, and the report of one step."""

from dataclasses import dataclass, field
from enum import StrEnum

from engine.draft_counters import DraftStats


class EngineStatus(StrEnum):
    STARTING = "starting"  # the model is loading or warming up
    READY = "ready"
    DRAINING = "draining"  # admits nothing new; running requests go on
    DEAD = "dead"  # a fatal fault, or stopped


class LengthBound(StrEnum):
    """What keeps a request from being longer; for people to read."""

    MODEL = "the model's context"
    SETTING = "the server's max_model_len"
    PAGES = "all that the KV cache can hold"


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What a request must fit in; known once the model is loaded."""

    max_model_len: int  # tokens of prompt and answer together
    max_num_seqs: int  # the largest n
    vocab_size: int
    length_bound: LengthBound = LengthBound.MODEL

    @property
    def longest_and_why(self) -> str:
        """The limit of a request's length and its reason, for a refusal."""
        return f"{self.max_model_len}, {self.length_bound}"


@dataclass(frozen=True, slots=True)
class CopiedBytes:
    """Bytes of K/V copied, all layers, each byte counted once however often it moved. Counters."""

    growth: int = 0  # pages moved to larger arrays
    pages: int = 0  # shared pages, before a write
    gather: int = 0  # pages read by dense attention; paged attention gathers none

    @property
    def total(self) -> int:
        return self.growth + self.pages + self.gather


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Gauges are of this moment; counters count since the engine was made."""

    # gauges, in pages: free + used + cached == the budget
    pages_free: int
    pages_used: int
    pages_cached: int
    page_capacity: int  # pages that have memory behind them, or were ever used
    page_size: int  # tokens
    bytes_per_page: int  # all layers, K and V
    unused_tail_slots: int  # in the last live page of every sequence
    requests_running: int
    requests_waiting: int
    # counters
    pool_growths: int
    kv_copied: CopiedBytes
    page_copies: int
    preemptions: int
    evictions: int
    prefix_query_tokens: int
    prefix_hit_tokens: int
    prompt_tokens: int  # computed or taken from the prefix cache, once per request
    generated_tokens: int
    drafts: DraftStats = field(default_factory=DraftStats)

    @property
    def page_budget(self) -> int:
        return self.pages_free + self.pages_used + self.pages_cached

    @property
    def unused_tail_bytes(self) -> int:
        return self.unused_tail_slots * self.bytes_per_page // self.page_size

    @property
    def fragmentation_ratio(self) -> float:
        """Unused slots in last live pages over all slots in live pages; 0 where no page is live."""
        slots = self.pages_used * self.page_size
        return self.unused_tail_slots / slots if slots else 0.0


@dataclass(frozen=True, slots=True)
class StorageStats:
    """What a runner tells of the memory behind the pages.

    Gauges in pages and bytes; the counters count growths and copied bytes.
    """

    page_capacity: int
    bytes_per_page: int
    num_growths: int
    copied: CopiedBytes


@dataclass(frozen=True, slots=True)
class StepReport:
    """One device step: its duration, its tokens, and how long each newly started request queued."""

    seconds: float
    num_tokens: int
    queue_seconds: tuple[float, ...]
