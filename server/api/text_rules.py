"""How the tokens of a choice become its text, and what is told beside it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextRules:
    stops: tuple[str, ...] = ()
    min_tokens: int = 0  # stop strings count only after so many tokens
    skip_special: bool = True
    echo: bool = False
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in token ids; `num_added` of them, at the start, are not of the client's text."""

    token_ids: tuple[int, ...]
    text: str | None = None  # as the client gave it, where it gave text
    num_added: int = 0
