"""The frozen plan of one forward pass, and what comes back from it.

A step computes T tokens in B rows, one after the other, without padding:

    row 0: 5 tokens of a prompt       row 1: 1 token        row 2: 1 token
    token_ids  [ p0 p1 p2 p3 p4        a                     b ]         T = 7
    positions  [  0  1  2  3  4       17                    42 ]

A row of drafts is one more shape of the same: row 1 with two drafts has the tokens [a d1 d2] at
17, 18 and 19, and a draw after each of the three.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.page_table import PageCopy
from engine.request import SamplingParams
from engine.token_event import TokenLogprob


@dataclass(frozen=True, slots=True)
class Draw:
    """One token to be chosen after a token of a row: the last one, but for drafts.

    A row has several draws where n sequences are forked from one prompt, each with another `index`,
    and where it holds drafts, each with another `position`. That is the place of the new token in its
    sequence; what it follows stands right before it. `history` is given only where a penalty
    needs it. `banned_token_ids` cannot be drawn (an end that comes before min_tokens).
    """

    sampling: SamplingParams
    index: int
    position: int
    history: "History | None" = None
    banned_token_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class History:
    """The tokens before a draw: the prompt's distinct ones, and how often each was generated."""

    prompt_token_ids: frozenset[int]
    generated_counts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """Some tokens of one sequence. Its context is `start` computed tokens and then `token_ids`.

    `page_ids` hold the whole context, `slots` are the places of the new tokens. `targets`, where
    not empty, are the tokens that follow each of `token_ids`, to be scored for `prompt_logprobs`.
    """

    request_id: str
    token_ids: tuple[int, ...]
    start: int
    page_ids: tuple[int, ...]
    slots: tuple[int, ...]
    draws: tuple[Draw, ...] = ()
    targets: tuple[int, ...] = ()
    num_alternatives: int = 0  # reported beside each target

    @property
    def context_len(self) -> int:
        return self.start + len(self.token_ids)

    @property
    def drawn_after(self) -> tuple[int, ...]:
        """The places in `token_ids` after which tokens are drawn, each once, in order."""
        return tuple(dict.fromkeys(draw.position - 1 - self.start for draw in self.draws))

    def goes_on_with(self, position: int, token_id: int | None) -> bool:
        """Whether `token_id`, drawn for `position`, leaves the draws after it a meaning.

        It must be the draft that stands there; where none does, there is nothing to contradict.
        """
        if position >= self.context_len:
            return True
        return self.token_ids[position - self.start] == token_id


@dataclass(frozen=True, slots=True)
class StepBatch:
    """`page_copies` are made in every layer before anything is written.

    `num_pages` is the number of page ids that must have memory behind them. `started` names the
    requests whose first tokens are in this step.
    """

    rows: tuple[Row, ...]
    page_copies: tuple[PageCopy, ...] = ()
    num_pages: int = 0
    started: tuple[str, ...] = ()

    @property
    def num_tokens(self) -> int:
        return sum(len(row.token_ids) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The token chosen for one Draw, or the error that kept it from being chosen."""

    token_id: int | None
    logprob: TokenLogprob | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RowResult:
    """One Drawn for each draw of the row, up to the first that is not the draft which stands there;
    one score for each of its targets."""

    drawn: tuple[Drawn, ...] = ()
    scores: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """One RowResult for each row of the StepBatch, in its order."""

    rows: tuple[RowResult, ...]
