"""A model in a few lines that notices every wrong page: K/V is simulated slot by slot.

The "K/V" of a token is a cell with the token and a digest of the whole text up to it. Reading a
context checks that the cells chain up, so a stale, foreign or unwritten slot fails at once. The
next token is a function of the whole context, so one wrong token changes everything after it.
`solo` says what a request must get, from plain lists alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.engine_stats import EngineLimits
from engine.request import Request
from engine.step_batch import Draw, Drawn, History, Row, RowResult, StepBatch, StepResult
from engine.token_event import FinishReason, TokenLogprob

MODULUS = 2**61 - 1


@dataclass(frozen=True, slots=True)
class Cell:
    token_id: int
    digest: int  # of every token up to this one


def extend_digest(digest: int, token_id: int) -> int:
    return (digest * 1_000_003 + token_id + 1) % MODULUS


def digest_of(token_ids: Sequence[int]) -> int:
    digest = 0
    for token in token_ids:
        digest = extend_digest(digest, token)
    return digest


class FakeModel:
    """Runs StepBatches. `failing` holds the (request_id, index) whose next draws fail."""

    def __init__(self, page_size: int, vocab_size: int) -> None:
        self.failing: set[tuple[str, int]] = set()
        self.num_computed_tokens = 0
        self._page_size = page_size
        self._vocab_size = vocab_size
        self._cells: dict[int, Cell] = {}  # by flat slot

    def run(self, batch: StepBatch) -> StepResult:
        self.write(batch)
        return StepResult(tuple(self._row_result(row) for row in batch.rows))

    def write(self, batch: StepBatch) -> None:
        """The page copies and the K/V of the new tokens, nothing else: a step that then fails."""
        self._copy_pages(batch)
        written = [slot for row in batch.rows for slot in row.slots]
        assert len(written) == len(set(written)), "two tokens of one step share a slot"
        assert max(written) < batch.num_pages * self._page_size, "a slot has no memory behind it"
        for row in batch.rows:
            self._write_row(row)

    def _copy_pages(self, batch: StepBatch) -> None:
        """All sources are read before any target is written."""
        size = self._page_size
        targets = [copy.target for copy in batch.page_copies]
        assert len(targets) == len({*targets} - {copy.source for copy in batch.page_copies})
        copied = {
            copy.target * size + offset: self._cells[copy.source * size + offset]
            for copy in batch.page_copies
            for offset in range(size)
            if copy.source * size + offset in self._cells
        }
        self._cells.update(copied)

    def _write_row(self, row: Row) -> None:
        assert row.token_ids
        assert len(row.token_ids) == len(row.slots)
        digest = self._context_digest(row, row.start)
        for token, slot in zip(row.token_ids, row.slots, strict=True):
            digest = extend_digest(digest, token)
            self._cells[slot] = Cell(token, digest)
        self.num_computed_tokens += len(row.token_ids)

    def _context_digest(self, row: Row, stop: int) -> int:
        """Read the row's first `stop` positions through its pages, as attention would."""
        digest = 0
        for position in range(stop):
            page = row.page_ids[position // self._page_size]
            cell = self._cells[page * self._page_size + position % self._page_size]
            digest = extend_digest(digest, cell.token_id)
            assert digest == cell.digest, f"{row.request_id} reads a foreign slot at {position}"
        return digest

    def _row_result(self, row: Row) -> RowResult:
        drawn = self._drawn(row)
        stop = row.context_len - len(row.token_ids)
        scores = []
        for i, target in enumerate(row.targets):
            scores.append(score(self._context_digest(row, stop + i + 1), target))
        return RowResult(tuple(drawn), tuple(scores))

    def _drawn(self, row: Row) -> list[Drawn]:
        drawn = []
        for draw in row.draws:
            digest = self._context_digest(row, draw.position)
            drawn.append(self._draw(row.request_id, digest, draw))
            if not row.goes_on_with(draw.position, drawn[-1].token_id):
                break
        self._context_digest(row, row.context_len)
        return drawn

    def _draw(self, request_id: str, digest: int, draw: Draw) -> Drawn:
        if (request_id, draw.index) in self.failing:
            return Drawn(None, error="the sampler failed")
        return Drawn(choose(digest, draw, self._vocab_size))


def choose(digest: int, draw: Draw, vocab_size: int) -> int:
    """The next token: a function of the context, the draw's index, seed, position and history."""
    digest = extend_digest(digest, draw.index)
    digest = extend_digest(digest, draw.sampling.seed)
    digest = extend_digest(digest, draw.position)
    if draw.history:
        digest = extend_digest(digest, digest_of(sorted(draw.history.prompt_token_ids)))
        for token, count in sorted(draw.history.generated_counts.items()):
            digest = extend_digest(extend_digest(digest, token), count)
    token = digest % vocab_size
    while token in draw.banned_token_ids:
        token = (token + 1) % vocab_size
    return token


def score(digest: int, target: int) -> TokenLogprob:
    return TokenLogprob(target, -float(extend_digest(digest, target) % 1000))


@dataclass(frozen=True, slots=True)
class Solo:
    """What one sequence of a request gets when it has the engine to itself."""

    token_ids: tuple[int, ...]
    finish_reason: FinishReason


def solo(request: Request, index: int, limits: EngineLimits, eos_token_ids: frozenset[int]) -> Solo:
    sampling = request.sampling
    ends = sampling.stop_token_ids | (frozenset() if sampling.ignore_eos else eos_token_ids)
    digest = digest_of(request.prompt_token_ids)
    room = limits.max_model_len - len(request.prompt_token_ids)
    answer: list[int] = []
    while len(answer) < min(sampling.max_tokens, room):
        history = None
        if sampling.has_penalty:
            counts = {token: answer.count(token) for token in answer}
            history = History(frozenset(request.prompt_token_ids), counts)
        is_early = len(answer) < sampling.min_tokens
        banned = eos_token_ids | sampling.stop_token_ids if is_early else frozenset[int]()
        position = len(request.prompt_token_ids) + len(answer)
        draw = Draw(sampling, index, position, history, banned)
        token = choose(digest, draw, limits.vocab_size)
        digest = extend_digest(digest, token)
        answer.append(token)
        if token in ends:
            return Solo(tuple(answer), FinishReason.STOP)
    return Solo(tuple(answer), FinishReason.LENGTH)


def solo_prompt_logprobs(request: Request) -> tuple[TokenLogprob | None, ...]:
    prompt = request.prompt_token_ids
    return (None, *(score(digest_of(prompt[:i]), prompt[i]) for i in range(1, len(prompt))))
