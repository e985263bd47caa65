"""One token stream of a request: its known tokens, its pages, and how far it is computed."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from engine.draft_length import DraftRecord
from engine.page_table import PageTable, Reservation
from engine.prefix_index import Root
from engine.proposer import SequenceId
from engine.request import Request
from engine.step_batch import Draw, Drawn, History
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
    computes some of the rest; `reservation` is open while that step runs, and has room for `drafts`
    too, which the step computes as if they were known.

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
    drafts: tuple[int, ...] = ()
    draft_record: DraftRecord = field(default_factory=DraftRecord)
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
    def sequence_id(self) -> SequenceId:
        return SequenceId(self.age.arrival, self.age.index)

    @property
    def may_be_drafted(self) -> bool:
        """True at decode, unless its client wants no drafts."""
        is_one = len(self.indexes) == 1 and self.request.speculative
        return is_one and self.num_generated_tokens > 0 and self.num_uncomputed_tokens == 1

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

    def draft_room(self, max_model_len: int) -> int:
        """The most drafts that can be of use: beside them one token is drawn in any case."""
        tokens = self.request.sampling.max_tokens - self.num_generated_tokens
        return min(tokens, max_model_len - len(self.token_ids)) - 1

    def drafts_that_fit(self, num_pages: int) -> int:
        """The most drafts that `num_pages` pages hold beside those that the known tokens need."""
        known = self.num_uncomputed_tokens
        return self.table.tokens_that_fit(self.table.pages_needed(known) + num_pages) - known

    def pages_for_drafts(self, num_drafts: int) -> int:
        """The pages that so many drafts need beside those of the known tokens."""
        known = self.num_uncomputed_tokens
        return self.table.pages_needed(known + num_drafts) - self.table.pages_needed(known)

    def reserve_drafts(self, drafts: tuple[int, ...], num_pages: int) -> None:
        """Make room behind the open reservation for as many drafts as `num_pages` more pages hold."""
        assert self.reservation and not self.drafts
        drafts = drafts[: self.table.tokens_that_fit(num_pages)]
        if not drafts:
            return
        more = self.table.append(len(drafts))
        assert more.copy is None, "the page before was made writable"
        self.reservation = Reservation(
            self.reservation.num_tokens + more.num_tokens,
            self.reservation.num_new_pages + more.num_new_pages,
            self.reservation.copy,
        )
        self.drafts = drafts

    def count_accepted(self, drawn: Iterable[Drawn], eos_token_ids: frozenset[int]) -> int:
        """The drafts that the target drew itself. One that ends the text is drawn but not kept:
        nothing comes after it."""
        count = 0
        for draft, found in zip(self.drafts, drawn, strict=False):
            if found.token_id != draft or self.is_end(draft, eos_token_ids):
                break
            count += 1
        return count

    def settle_drafts(self, num_accepted: int) -> int:
        """Rewind all drafts but the first `num_accepted`; the pages that this gave back."""
        num_pages = len(self.table.page_ids)
        self.table.rewind(len(self.drafts) - num_accepted)
        self.drafts = ()
        return num_pages - len(self.table.page_ids)

    def draws(self, eos_token_ids: frozenset[int]) -> tuple[Draw, ...]:
        """What is to be drawn once every known token and draft is computed: one token for each
        index, and one more after each draft."""
        sampling = self.request.sampling
        if sampling.max_tokens == 0:
            return ()
        ends = eos_token_ids | sampling.stop_token_ids
        draws: list[Draw] = []
        for num_drafts, history in enumerate(self._histories()):
            is_early = self.num_generated_tokens + num_drafts < sampling.min_tokens
            banned = ends if is_early else frozenset[int]()
            position = len(self.token_ids) + num_drafts
            draws += [Draw(sampling, i, position, history, banned) for i in self.indexes]
        return tuple(draws)

    def is_end(self, token_id: int, eos_token_ids: frozenset[int]) -> bool:
        """Whether this token ends the text, wherever it comes."""
        sampling = self.request.sampling
        is_eos = token_id in eos_token_ids and not sampling.ignore_eos
        return is_eos or token_id in sampling.stop_token_ids

    def finish_reason(
        self, eos_token_ids: frozenset[int], max_model_len: int
    ) -> FinishReason | None:
        """Why the newest token ends this sequence, or None where it goes on."""
        sampling = self.request.sampling
        if self.is_end(self.token_ids[-1], eos_token_ids):
            return FinishReason.STOP
        if self.num_generated_tokens >= sampling.max_tokens or len(self.token_ids) >= max_model_len:
            return FinishReason.LENGTH
        return None

    def _histories(self) -> Iterator[History | None]:
        """What came before the next token, and before the one after each draft."""
        if not self.request.sampling.has_penalty:
            yield from [None] * (len(self.drafts) + 1)
            return
        prompt = frozenset(self.request.prompt_token_ids)
        generated = Counter(self.token_ids[self.num_prompt_tokens :])
        yield History(prompt, generated)
        for draft in self.drafts:
            generated = generated.copy()
            generated[draft] += 1
            yield History(prompt, generated)
