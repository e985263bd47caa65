"""What drafts are worth: texts that repeat their prompt, and texts with nothing to copy. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from server.bench.table import table

_FORM = """Name: Ada Lovelace
Street: 12 St James's Square
City: London
Country: United Kingdom
Occupation: Mathematician and writer
Known for: the first published computer program, written for the Analytical Engine
Born: 10 December 1815
"""
_CODE = """def area_of_rectangle(width, height):
    result = width * height
    return result

def area_of_triangle(base, height):
    result = base * height / 2
    return result

def area_of_circle(radius):
    result = 3.14159 * radius * radius
    return result
"""
_TALE = (
    "The fox lerned to sail on the lake. Every morning the fox took the small boat and sailed to "
    "the island in the middle of the lake. On the iland lived an old heron who knew every wind. "
    "The heron told the fox about the wind from the north and the wind from the south."
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A question whose answer repeats it, or does not."""

    name: str
    repeats_prompt: bool
    prompt: str


PASSAGES = (
    Passage("correct a text", True, f"Correct the spelling mistakes in this text: {_TALE}"),
    Passage(
        "copy a form",
        True,
        f"Here is a form:\n\n{_FORM}\nWrite the form again, line by line, with the same content.",
    ),
    Passage(
        "copy code",
        True,
        f"Here is some Python code:\n\n```python\n{_CODE}```\n\nPlease write the same code again.",
    ),
    Passage("a story", False, "Write a story about a fox who learns to sail."),
    Passage("an e-mail", False, "Write a polite e-mail to a landlord about a broken heater."),
    Passage("a history", False, "Tell me about the history of the printing press."),
)


@dataclass(frozen=True, slots=True)
class Timed:
    """One answer: its tokens, and the seconds from the first of them to the last."""

    num_tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return (self.num_tokens - 1) / self.seconds


@dataclass(frozen=True, slots=True)
class Pair:
    """The same answer twice, right after one another."""

    plain: Timed
    drafted: Timed

    @property
    def ratio(self) -> float:
        return self.drafted.tokens_per_second / self.plain.tokens_per_second


@dataclass(frozen=True, slots=True)
class Compared:
    passage: Passage
    pairs: tuple[Pair, ...]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios: what slows both answers of a pair down does not count."""
        return median(pair.ratio for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class Settings:
    """What was measured. A server at `url` has its own way to draft; None is an engine of our own."""

    url: str | None
    model: str
    speculative: str | None
    max_draft_tokens: int | None
    rounds: int
    new_tokens: int


def mean_ratio(compared: Sequence[Compared], *, repeats_prompt: bool) -> float:
    """The mean over all passages of a kind."""
    ratios = [one.ratio for one in compared if one.passage.repeats_prompt is repeats_prompt]
    return sum(ratios) / len(ratios)


def as_table(compared: Sequence[Compared]) -> str:
    header = ("answer", "repeats its prompt", "tokens", "tok/s without", "tok/s with", "ratio")
    rows = [_row(one) for one in compared]
    means = "\n".join(
        f"{words}: {mean_ratio(compared, repeats_prompt=kind):.2f} times the tokens per second"
        for kind, words in ((True, "repeating its prompt"), (False, "nothing to copy"))
    )
    return f"{table(header, rows)}\n\n{means}"


def as_object(settings: Settings, compared: Sequence[Compared]) -> Mapping[str, object]:
    """As docs/bench-engine.md says."""
    return {
        "settings": asdict(settings),
        "passages": [
            {
                **asdict(one.passage),
                "ratio": one.ratio,
                "pairs": [asdict(pair) for pair in one.pairs],
            }
            for one in compared
        ],
    }


def _row(one: Compared) -> tuple[str, ...]:
    return (
        one.passage.name,
        "yes" if one.passage.repeats_prompt else "no",
        f"{one.pairs[0].plain.num_tokens}",
        f"{median(pair.plain.tokens_per_second for pair in one.pairs):.1f}",
        f"{median(pair.drafted.tokens_per_second for pair in one.pairs):.1f}",
        f"{one.ratio:.2f}",
    )
