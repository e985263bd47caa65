"""Text to token ids and back, the same for every source of a vocabulary.

The tokenizers package cuts plain text into tokens. Which control tokens a text may spell, where
the begin-of-sequence token goes, and how bytes become text again is decided here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tokenizers import Tokenizer as Backend
from tokenizers.pre_tokenizers import Metaspace

from engine.errors import InvalidRequest, ModelError
from server.text.jinja_template import JinjaTemplate
from server.text.special_tokens import SpecialTokens
from server.text.token_pieces import pieces_of
from server.text.tokenizer_definition import Component, parse_definition


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """Everything a tokenizer is made from. `definition` is the text of a tokenizer.json.

    `named_tokens` are spellings by role ("bos_token", "eos_token", ...); `bos_token_id` counts
    where they name none, and `eos_token_ids` beside the one they name. `adds_bos` None leaves it
    to the definition's own way with a text.
    """

    name: str  # what to blame in messages
    definition: str
    adds_bos: bool | None = None
    bos_token_id: int | None = None
    eos_token_ids: frozenset[int] = frozenset()
    chat_template: str | None = None
    named_tokens: Mapping[str, str] = field(default_factory=dict)


class Tokenizer:
    """A vocabulary and its rules. Immutable; safe to use from several threads."""

    def __init__(self, source: TokenizerSource) -> None:
        definition = parse_definition(source.definition, source.name)
        self._backend = _backend(source)
        self._inner_backend = _inner_backend(self._backend, definition.pre_tokenizer)
        self._pieces = pieces_of(definition.decoder, source.name)
        self._added = {token.id: token.content for token in definition.added_tokens}
        self._special = SpecialTokens(token for token in definition.added_tokens if token.special)
        self._named_tokens = MappingProxyType(dict(source.named_tokens))
        template = source.chat_template
        self._chat_template = None if template is None else JinjaTemplate(template)
        self._bos_token_id = self._named_id("bos_token", source.bos_token_id)
        eos = self._named_id("eos_token", None)
        self._eos_token_ids = source.eos_token_ids | ({eos} if eos is not None else frozenset())
        self._adds_bos = self._puts_bos() if source.adds_bos is None else source.adds_bos

    @property
    def vocab_size(self) -> int:
        """One more than the largest token id."""
        return max([self._backend.get_vocab_size(), *(token_id + 1 for token_id in self._added)])

    @property
    def bos_token_id(self) -> int | None:
        return self._bos_token_id

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Every id that ends a text, from all files of the model that name one."""
        return self._eos_token_ids

    @property
    def adds_bos(self) -> bool:
        """Whether a text of this model starts with the begin-of-sequence token."""
        return self._adds_bos

    @property
    def has_chat_template(self) -> bool:
        return self._chat_template is not None

    @property
    def chat_template(self) -> JinjaTemplate | None:
        """The model's template; `chat_template.render_chat` applies it."""
        return self._chat_template

    @property
    def named_tokens(self) -> Mapping[str, str]:
        """The tokens that a chat template may name: "bos_token", "eos_token" and so on."""
        return self._named_tokens

    @property
    def special_tokens(self) -> SpecialTokens:
        return self._special

    @property
    def strips_first_space(self) -> bool:
        """Whether the decoded text drops one space at its start, which encoding put there."""
        return self._pieces.strips_first_space

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The token ids of a text.

        `add_special` puts the begin-of-sequence token first where the model's texts have one,
        and never a second. `parse_special` reads a control token's spelling as that token;
        otherwise it is text like any other. Raises InvalidRequest for lone surrogates.
        """
        ids = self.encode_parts(self._special.split(text) if parse_special else (text,))
        return self.with_bos(ids) if add_special else ids

    def encode_parts(self, parts: Iterable[int | str]) -> list[int]:
        """One text given in parts: control token ids, and plain text between them."""
        ids: list[int] = []
        for place, part in enumerate(parts):
            if isinstance(part, int):
                ids.append(part)
            elif part:
                backend = self._inner_backend if place else self._backend
                ids += backend.encode(_checked(part), add_special_tokens=False).ids
        return ids

    def with_bos(self, ids: list[int]) -> list[int]:
        """The ids with the model's begin-of-sequence token in front, unless it is there."""
        bos = self.bos_token_id
        if not self._adds_bos or bos is None or ids[:1] == [bos]:
            return ids
        return [bos, *ids]

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """The text of a whole sequence; bytes that are no UTF-8 show as U+FFFD.

        Spaces stay as they are: there is no clean-up around punctuation.
        """
        data = b"".join(self.visible_bytes(token_id, skip_special) for token_id in ids)
        if self.strips_first_space:
            data = data.removeprefix(b" ")
        return data.decode("utf-8", "replace")

    def visible_bytes(self, token_id: int, skip_special: bool) -> bytes:
        """The bytes that a token adds to a text; a control token's spelling unless skipped."""
        if not skip_special and token_id in self._special:
            return self._special.text(token_id).encode()
        return self.token_bytes(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        """The raw bytes of a token; none for control tokens and for ids that name no token."""
        if token_id in self._special:
            return b""
        if (added := self._added.get(token_id)) is not None:
            return added.encode()
        piece = self._backend.id_to_token(token_id) if token_id >= 0 else None
        return b"" if piece is None else self._pieces.to_bytes(piece)

    def token_text(self, token_id: int) -> str:
        """A token alone, to be read: its spelling, with U+FFFD for parts of characters."""
        return self.visible_bytes(token_id, skip_special=False).decode("utf-8", "replace")

    def _named_id(self, name: str, otherwise: int | None) -> int | None:
        token = self._named_tokens.get(name)
        found = self._backend.token_to_id(token) if token is not None else None
        return otherwise if found is None else found

    def _puts_bos(self) -> bool:
        """Whether the definition itself puts the begin-of-sequence token before a text."""
        ids = self._backend.encode("a", add_special_tokens=True).ids
        return self._bos_token_id is not None and ids[:1] == [self._bos_token_id]


def _backend(source: TokenizerSource) -> Backend:
    try:
        backend = Backend.from_str(source.definition)
    except Exception as error:  # the package raises nothing narrower
        raise ModelError(f"{source.name}: {error}") from error
    backend.encode_special_tokens = True  # control tokens are found by SpecialTokens alone
    backend.no_truncation()
    backend.no_padding()
    return backend


def _inner_backend(backend: Backend, pre_tokenizer: Component | None) -> Backend:
    """The backend for text that follows a control token.

    It differs only where a vocabulary puts a space before the first word of a text and no other.
    """
    parts = pre_tokenizer.parts() if pre_tokenizer else ()
    if [(part.type, part.prepend_scheme) for part in parts] != [("Metaspace", "first")]:
        return backend
    inner = Backend.from_str(backend.to_str())
    inner.encode_special_tokens = True
    inner.pre_tokenizer = Metaspace(prepend_scheme="never", split=_splits(backend))
    return inner


def _splits(backend: Backend) -> bool:
    metaspace = backend.pre_tokenizer
    return metaspace.split if isinstance(metaspace, Metaspace) else True


def _checked(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"the text has a lone surrogate (U+{ord(text[error.start]):04X}) "
            f"at character {error.start}; it is not valid Unicode"
        ) from error
    return text
