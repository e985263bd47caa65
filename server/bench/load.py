"""What a load sends: random prompts and lengths, each a function of its seed. Pure.

The same seed gives the same prompts, and request i does not depend on how many there are.
"""

import random
from dataclasses import dataclass
from itertools import accumulate

from server.bench.span import Span
from server.bench.words import WORDS

LEAST_PER_WORD = 0.25  # tokens; a server that counts fewer counts something else


@dataclass(frozen=True, slots=True)
class TokenGauge:
    """How a server counts a prompt of words: tokens = overhead + per_word * words."""

    per_word: float = 1.0
    overhead: float = 0.0

    def words_for(self, tokens: int) -> int:
        """The number of words, at least 1, that comes closest to so many tokens."""
        return max(1, round((tokens - self.overhead) / self.per_word))


def gauge_of(few_words: int, few_tokens: int, many_words: int, many_tokens: int) -> TokenGauge:
    """The line through two prompts that the server has counted; the plain gauge if it is too flat."""
    per_word = (many_tokens - few_tokens) / (many_words - few_words)
    if per_word < LEAST_PER_WORD:
        return TokenGauge()
    return TokenGauge(per_word, few_tokens - per_word * few_words)


@dataclass(frozen=True, slots=True)
class Load:
    """`num_requests` random requests.

    `prompt` is in tokens as `gauge` counts them; the plain gauge makes it a span of words.
    `shared_prefix`, 0 .. 1, is the share of each prompt that is the beginning of one common text.
    """

    num_requests: int
    prompt: Span
    new_tokens: Span
    shared_prefix: float = 0.0
    seed: int = 0
    gauge: TokenGauge = TokenGauge()


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    prompt: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Clients:
    """A closed loop: `count` clients, each sends its next request when its last one has ended."""

    count: int

    def __str__(self) -> str:
        return f"{self.count} client{'s' if self.count > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Rate:
    """An open loop: requests arrive at random, `per_second` of them on average, whoever waits."""

    per_second: float

    def __str__(self) -> str:
        return f"{self.per_second:g}/s"


Pace = Clients | Rate


def plan_requests(load: Load) -> tuple[PlannedRequest, ...]:
    common = _words(random.Random(f"{load.seed}/common"), load.gauge.words_for(load.prompt.high))
    return tuple(_plan_request(load, common, i) for i in range(load.num_requests))


def arrival_times(per_second: float, count: int, seed: int) -> tuple[float, ...]:
    """Seconds at which `count` requests arrive: a Poisson process, the first at 0."""
    dice = random.Random(f"{seed}/arrivals")
    gaps = [0.0, *(dice.expovariate(per_second) for _ in range(count - 1))]
    return tuple(accumulate(gaps[:count]))


def _plan_request(load: Load, common: list[str], index: int) -> PlannedRequest:
    dice = random.Random(f"{load.seed}/{index}")
    num_words = load.gauge.words_for(load.prompt.draw(dice))
    max_tokens = load.new_tokens.draw(dice)
    shared = common[: int(num_words * load.shared_prefix)]
    own = _words(dice, num_words - len(shared))
    return PlannedRequest(" ".join(shared + own), max_tokens)


def _words(dice: random.Random, count: int) -> list[str]:
    return dice.choices(WORDS, k=count)
