"""Drafts from the text itself: what followed the last few tokens when they stood there before.

    known tokens   ... the page is never | ... since the page is -> never
                       ~~~~~~~~~~~ found                ~~~~~~~~~~~ the newest

The longest run of newest tokens that was seen before decides, and of several places the latest.
"""

from collections.abc import Iterator, Sequence

from engine.proposer import Ask, DraftRound, SequenceId

SIZES = (5, 3)  # tokens of a run, longest first; after shorter ones too much may follow
INDEXED_TOKENS = 2048  # of one sequence in one call, so that a long prompt holds nobody up


class NgramProposer:
    """The mutable state is one index for each sequence that was asked for."""

    needs_device = False

    def __init__(self) -> None:
        self._indexes: dict[SequenceId, NgramIndex] = {}

    @property
    def num_texts(self) -> int:
        """Sequences that something is kept of."""
        return len(self._indexes)

    def propose(self, drafting: DraftRound) -> list[tuple[int, ...]]:
        """See `Proposer`. Work for new tokens alone, whatever the length of the text."""
        for ended in self._indexes.keys() - drafting.live:
            del self._indexes[ended]
        return [self._propose(ask) for ask in drafting.asks]

    def _propose(self, ask: Ask) -> tuple[int, ...]:
        index = self._indexes.setdefault(ask.sequence_id, NgramIndex())
        index.extend(ask.token_ids)
        place = index.find(ask.token_ids)
        return () if place is None else tuple(_going_on(ask.token_ids, place, ask.num_tokens))


class NgramIndex:
    """Where each run of tokens of one growing text ended last."""

    def __init__(self) -> None:
        self._stops: tuple[dict[tuple[int, ...], int], ...] = tuple({} for _ in SIZES)
        self._num_indexed = 0  # the runs that end before or at this many tokens are known

    def extend(self, token_ids: Sequence[int]) -> None:
        """Take in what is new, but not the run that ends the text: it would find itself."""
        stop = min(len(token_ids) - 1, self._num_indexed + INDEXED_TOKENS)
        first = max(self._num_indexed + 1 - SIZES[0], 0)
        recent = tuple(token_ids[first:stop])
        for size, stops in zip(SIZES, self._stops, strict=True):
            for end in range(max(self._num_indexed + 1, size), stop + 1):
                stops[recent[end - size - first : end - first]] = end
        self._num_indexed = max(stop, self._num_indexed)

    def find(self, token_ids: Sequence[int]) -> int | None:
        """The place after the latest copy of the longest run that ends the text, if there is one."""
        if self._num_indexed < len(token_ids) - 1:
            return None  # the rest of a long prompt comes first
        for size, stops in zip(SIZES, self._stops, strict=True):
            place = stops.get(tuple(token_ids[-size:]))
            if place is not None:
                return place
        return None


def _going_on(token_ids: Sequence[int], place: int, num_tokens: int) -> Iterator[int]:
    """The tokens from `place` on; past the end of the text a repetition repeats itself."""
    period = len(token_ids) - place
    for i in range(num_tokens):
        yield token_ids[place + i % period]
