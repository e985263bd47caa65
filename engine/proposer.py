"""The seam between scheduling and guessing: who wants drafts, and what a proposer gives.

A draft is a proposal and nothing else. It is accepted where the target draws the same token at
that place, so no draft, however bad, changes a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SequenceId:
    """Never used twice: the number of the request in order of arrival, and the index within it."""

    arrival: int
    index: int


@dataclass(frozen=True, slots=True)
class Ask:
    """At most `num_tokens` drafted tokens are wanted after `token_ids`, all known ones.

    `token_ids` is the sequence's own list: read it before the next step begins.
    """

    sequence_id: SequenceId
    token_ids: Sequence[int]
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may follow the first `num_known` of a sequence; stale once there are more."""

    sequence_id: SequenceId
    num_known: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DraftRound:
    """What a step asks of the proposer; `live` are all that it may be asked for again."""

    asks: tuple[Ask, ...]
    live: frozenset[SequenceId]


class Proposer(Protocol):
    """Whatever guesses. Its calls come one at a time, and never while a step is computed."""

    @property
    def needs_device(self) -> bool:
        """True where it computes with a model: its calls then belong on the device's thread."""
        ...

    def propose(self, drafting: DraftRound) -> Sequence[tuple[int, ...]]:
        """For each ask no, some, or as many tokens as it wants.

        Whatever is kept of sequences that are not live is to be forgotten; a live one that is not
        asked for may be asked for again. The known tokens of a sequence only ever grow.
        """
        ...
