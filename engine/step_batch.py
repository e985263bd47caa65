"""The frozen plan of one forward pass, and what comes back from it.

A step computes T tokens in B rows, one after the other, without padding:

    row 0: 5 tokens of a prompt       row 1: 1 token        row 2: 1 token
    token_ids  [ p0 p1 p2 p3 p4        a                     b ]         T = 7
    positions  [  0  1  2  3  4       17                    42 ]
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.page_table import PageCopy
from engine.request import SamplingParams
from engine.token_event import TokenLogprob


@dataclass(frozen=True, slots=True)
class Draw:
    """One token to be chosen after the last token of a row.

    A row has several draws where n sequences are forked from one prompt: each is another `index`.
    `position` is that of the new token in its sequence. `history` is given only where a penalty
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
    """One Drawn for each draw of the row, one score for each of its targets."""

    drawn: tuple[Drawn, ...] = ()
    scores: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """One RowResult for each row of the StepBatch, in its order."""

    rows: tuple[RowResult, ...]
