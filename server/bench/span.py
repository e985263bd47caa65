"""A span of lengths, LOW:HIGH, or one length."""

import random
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass

LONGEST = 1_000_000  # no model reads more, and all of it is made before a load begins
_SPAN = re.compile(r"0*([0-9]{1,7})(?::0*([0-9]{1,7}))?")


@dataclass(frozen=True, slots=True)
class Span:
    """A length drawn evenly from low .. high, in tokens or words."""

    low: int
    high: int

    def draw(self, dice: random.Random) -> int:
        return dice.randint(self.low, self.high)


def span(text: str) -> Span:
    """A span LOW:HIGH, both from 1 to LONGEST; LOW alone is LOW:LOW."""
    if found := _SPAN.fullmatch(text):
        low, high = int(found[1]), int(found[2] or found[1])
        if 1 <= low <= high <= LONGEST:
            return Span(low, high)
    wanted = f"LOW:HIGH with 1 <= LOW <= HIGH <= {LONGEST:,}, or one length"
    raise ArgumentTypeError(f"{text[:80]!r} is not {wanted}")
