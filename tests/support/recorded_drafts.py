"""A proposer that knows how texts go on, and is wrong now and then."""

import random
from collections.abc import Sequence

from engine.proposer import DraftRound


class Recorded:
    """`texts` are whole: prompt and answer. Four drafts in ten have a wrong token at a random place."""

    needs_device = False

    def __init__(self, texts: Sequence[Sequence[int]], seed: int = 0) -> None:
        self._texts = [tuple(text) for text in texts]
        self._dice = random.Random(seed)

    def propose(self, drafting: DraftRound) -> list[tuple[int, ...]]:
        return [self._draft(ask.token_ids, ask.num_tokens) for ask in drafting.asks]

    def _draft(self, known: Sequence[int], num_tokens: int) -> tuple[int, ...]:
        known = tuple(known)
        for text in self._texts:
            if text[: len(known)] == known and len(text) > len(known):
                drafts = list(text[len(known) : len(known) + num_tokens])
                if self._dice.random() < 0.4:
                    place = self._dice.randrange(len(drafts))
                    drafts[place] = (drafts[place] + 1) % 256
                return tuple(drafts)
        return ()
