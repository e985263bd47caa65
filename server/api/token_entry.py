"""One token beside its text: its log probability, its alternatives and where it stands."""

from dataclasses import dataclass

from engine.token_event import TokenLogprob
from server.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Alternative:
    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """`offset` counts characters from the start of the choice's text."""

    token_id: int
    logprob: float | None  # None for the first token of a prompt
    top: tuple[Alternative, ...]
    offset: int


def make_entry(token_id: int, logprob: TokenLogprob | None, offset: int) -> TokenEntry:
    if logprob is None:
        return TokenEntry(token_id, None, (), offset)
    top = tuple(Alternative(other, value) for other, value in logprob.top)
    return TokenEntry(token_id, logprob.logprob, top, offset)


def token_name(tokenizer: Tokenizer, token_id: int) -> str:
    """A token's name in the legacy shape: its text, or `bytes:\\x..` where it is no whole text."""
    raw = tokenizer.token_bytes(token_id)
    if not raw:
        return tokenizer.token_text(token_id)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
