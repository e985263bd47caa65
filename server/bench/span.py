"""A span of lengths, LOW:HIGH."""

import random
from argparse import ArgumentTypeError
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A length drawn evenly from low .. high, in tokens or words."""

    low: int
    high: int

    def draw(self, dice: random.Random) -> int:
        return dice.randint(self.low, self.high)


def span(text: str) -> Span:
    """A span LOW:HIGH, both at least 1."""
    low, colon, high = text.partition(":")
    if not (colon and low.isdecimal() and high.isdecimal() and 1 <= int(low) <= int(high)):
        raise ArgumentTypeError(f"{text!r} is not LOW:HIGH with 1 <= LOW <= HIGH")
    return Span(int(low), int(high))
