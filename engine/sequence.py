"""One token stream of a request: its known tokens, its pages, and how far it is computed."""

from collections import Counter
from dataclasses import dataclass, field

from engine.page_table import PageTable, Reservation
from engine.prefix_index import Root
from engine.request import Request
from engine.step_batch import Draw, History
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
    computes some of the rest; `reservation` is open while that step runs.

    `indexes` says which of the request's n sequences this one stands for: all of them until the
    prompt is computed, then one, the others being forked from it; none once it is aborted.
    """

    request: Request
    age: Age
    table: PageTable
    indexes: list[int]
    token_ids: list[int]
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0  # of the prompt, taken from the prefix cache
    num_preemptions: int = 0
    has_started: bool = False  # some step has computed tokens of it
    reservation: Reservation | None = None
    prompt_logprobs: list[TokenLogprob | None] = field(default_factory=lambda: [None])

    @classmethod
    def begin(cls, request: Request, arrival: int, table: PageTable) -> "Sequence":
        """The one sequence that computes the prompt of `request` for all of its n."""
        indexes = list(range(request.sampling.n))
        return cls(request, Age(arrival, 0), table, indexes, list(request.prompt_token_ids))

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
    def root(self) -> Root:
        return Root(self.request.cache_salt)

    @property
    def has_prompt_to_score(self) -> bool:
        wanted = self.request.sampling.prompt_logprobs is not None
        return wanted and len(self.prompt_logprobs) < self.num_prompt_tokens

    def fork(self, index: int) -> "Sequence":
        """Let another sequence stand for `index`: the same tokens, every page shared."""
        self.indexes.remove(index)
        return Sequence(
            request=self.request,
            age=Age(self.age.arrival, index),
            table=self.table.fork(),
            indexes=[index],
            token_ids=list(self.token_ids),
            num_computed_tokens=self.num_computed_tokens,
            num_cached_tokens=self.num_cached_tokens,
            has_started=True,
            prompt_logprobs=self.prompt_logprobs,
        )

    def forget_computed(self) -> None:
        """Give the pages back; every known token, generated ones included, is to be computed again."""
        self.table.release()
        self.num_computed_tokens = 0
        self.num_preemptions += 1
        if self.has_prompt_to_score:
            self.prompt_logprobs = [None]

    def targets(self, start: int, stop: int) -> tuple[int, ...]:
        """The prompt tokens that follow positions start .. stop-1, where they are to be scored."""
        if not self.has_prompt_to_score:
            return ()
        return tuple(self.token_ids[start + 1 : min(stop + 1, self.num_prompt_tokens)])

    def draws(self, eos_token_ids: frozenset[int]) -> tuple[Draw, ...]:
        """What is to be drawn once every known token is computed: one token for each index."""
        sampling = self.request.sampling
        if sampling.max_tokens == 0:
            return ()
        history = self._history()
        banned = frozenset[int]()
        if self.num_generated_tokens < sampling.min_tokens:
            banned = eos_token_ids | sampling.stop_token_ids
        position = len(self.token_ids)
        return tuple(Draw(sampling, i, position, history, banned) for i in self.indexes)

    def finish_reason(
        self, eos_token_ids: frozenset[int], max_model_len: int
    ) -> FinishReason | None:
        """Why the newest token ends this sequence, or None where it goes on."""
        sampling = self.request.sampling
        newest = self.token_ids[-1]
        is_eos = newest in eos_token_ids and not sampling.ignore_eos
        if is_eos or newest in sampling.stop_token_ids:
            return FinishReason.STOP
        if self.num_generated_tokens >= sampling.max_tokens or len(self.token_ids) >= max_model_len:
            return FinishReason.LENGTH
        return None

    def _history(self) -> History | None:
        sampling = self.request.sampling
        if not sampling.has_penalty:
            return None
        generated = Counter(self.token_ids[self.num_prompt_tokens :])
        return History(frozenset(self.request.prompt_token_ids), generated)
