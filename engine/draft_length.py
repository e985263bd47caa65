"""How many tokens to draft for each sequence of a step: arithmetic, nothing else.

A step of T tokens costs base + T. If a draft is accepted with chance a wherever the ones before it
were, the j-th is of use with chance a^j. Adding it raises the useful tokens per cost of the step
just where a^j is above what that ratio is without it; so the best chances are taken first, until
the next one is not worth its cost. The more there is to compute anyway, the higher the ratio and
the fewer the drafts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_CHANCE = 0.5  # what is expected of a sequence that has shown nothing yet
FIRST_WEIGHT = 1.0  # tries that this expectation counts for
MEMORY = 0.8  # weight of a try after one more
SURE = 0.98  # nothing is surer than this
PROBE = 3  # tokens drafted to see whether drafts are accepted by now
FIRST_PAUSE = 4  # steps without drafts before the first probe; doubled by each that fails
LONGEST_PAUSE = 64


@dataclass(slots=True)
class DraftRecord:
    """How the drafts of one sequence fared, and for how long it has gone without."""

    tries: float = 0.0  # drafts that were looked at: all accepted ones, and the first that was not
    accepted: float = 0.0
    idle_steps: int = 0
    pause: int = FIRST_PAUSE

    @property
    def chance(self) -> float:
        """That a draft is accepted where those before it were."""
        expected = self.accepted + FIRST_CHANCE * FIRST_WEIGHT
        return min(expected / (self.tries + FIRST_WEIGHT), SURE)

    def note(self, num_drafted: int, num_accepted: int) -> None:
        """Take in the outcome of one row with drafts."""
        for is_accepted in [True] * num_accepted + [False] * (num_drafted > num_accepted):
            self.tries = self.tries * MEMORY + 1
            self.accepted = self.accepted * MEMORY + is_accepted
        self.idle_steps = 0
        self.pause = FIRST_PAUSE if num_accepted else min(2 * self.pause, LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Load:
    """What the step computes anyway, and how many tokens more it may. `base` is in tokens."""

    num_tokens: int
    num_left: int
    base: float


def draft_lengths(load: Load, records: Sequence[DraftRecord], limits: Sequence[int]) -> list[int]:
    """Tokens to draft for each sequence, at most its limit, and `num_left` in all.

    A sequence that gets none is probed after a pause; its record counts the steps until then.
    """
    lengths = _worthwhile(load, records, limits)
    left = load.num_left - sum(lengths)
    for i, record in enumerate(records):
        if not lengths[i] and limits[i]:
            record.idle_steps += 1
            if record.idle_steps >= record.pause:
                lengths[i] = min(PROBE, limits[i], left)
                left -= lengths[i]
    return lengths


def _worthwhile(load: Load, records: Sequence[DraftRecord], limits: Sequence[int]) -> list[int]:
    chances = [
        (record.chance**j, i)
        for i, (record, limit) in enumerate(zip(records, limits, strict=True))
        for j in range(1, limit + 1)
    ]
    lengths = [0] * len(records)
    useful, cost = float(load.num_tokens), load.base + load.num_tokens
    for chance, i in sorted(chances, reverse=True)[: load.num_left]:
        if chance * cost <= useful:
            break
        lengths[i] += 1
        useful += chance
        cost += 1
    return lengths
