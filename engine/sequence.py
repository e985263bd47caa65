"""One token stream of a request: its known tokens, its pages, and how far it is computed."""

from dataclasses import dataclass, field

from engine.page_table import PageTable, Reservation
from engine.prefix_index import Root
from engine.request import Request
from engine.token_event import FinishReason, TokenLogprob


@dataclass(frozen=True, slots=True, order=True)
class Age:
    """Who came first: the order of arrival, then the index within one request."""

    arrival: int
    index: int


@dataclass(slots=True, eq=False)
class Sequence:
    """Mutable; owned by the scheduler.

    `num_computed_tokens` of the known `token_ids` have their K/V in the pages of `table`. A step
    computes some of the rest; `reservation` is open while that step runs. `num_pending_forks`
    sequences of the same request will be forked from this one when its prompt is computed.
    """

    request: Request
    age: Age
    table: PageTable
    token_ids: list[int] = field(init=False)
    num_computed_tokens: int = 0
    num_pending_forks: int = 0
    num_cached_tokens: int = 0  # of the prompt, taken from the prefix cache
    has_started: bool = False  # some step has computed tokens of it
    is_aborted: bool = False  # while a step holds its pages
    reservation: Reservation | None = None
    prompt_logprobs: list[TokenLogprob | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.token_ids = list(self.request.prompt_token_ids)

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def num_generated_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_uncomputed_tokens(self) -> int:
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def num_slots_taken(self) -> int:
        """How many of `max_num_seqs` it takes up: its forks to be are counted from the start."""
        return 1 + self.num_pending_forks

    @property
    def root(self) -> Root:
        return Root(self.request.cache_salt)

    @property
    def wants_prompt_logprobs(self) -> bool:
        return self.request.sampling.prompt_logprobs is not None

    def fork(self, index: int) -> "Sequence":
        """Another sequence of the same request and the same tokens, sharing every page."""
        child = Sequence(self.request, Age(self.age.arrival, index), self.table.fork())
        child.token_ids = list(self.token_ids)
        child.num_computed_tokens = self.num_computed_tokens
        child.num_cached_tokens = self.num_cached_tokens
        child.has_started = True
        return child

    def finish_reason(self, eos_token_ids: frozenset[int], max_model_len: int) -> FinishReason | None:
        """Why the newest token ends this sequence, or None where it goes on."""
        sampling = self.request.sampling
        newest = self.token_ids[-1]
        is_eos = newest in eos_token_ids and not sampling.ignore_eos
        if is_eos or newest in sampling.stop_token_ids:
            return FinishReason.STOP
        if self.num_generated_tokens >= sampling.max_tokens or len(self.token_ids) >= max_model_len:
            return FinishReason.LENGTH
        return None
