"""The bytes that a token stands for, by the two spellings that vocabularies use.

Byte-level BPE spells every byte as one printable character. SentencePiece writes a space as "▁"
and a byte that no piece covers as "<0xNN>"; some of its vocabularies put a space before every
text, which the start of the decoded text gives back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.errors import ModelError
from server.text.tokenizer_definition import Component

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_level_alphabet() -> Mapping[str, int]:
    """The byte of each of byte-level BPE's 256 characters.

    Printable Latin-1 characters stand for themselves; the other bytes take the code points
    from 256 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    unprintable = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(256 + place): byte for place, byte in enumerate(unprintable)})
    return MappingProxyType(alphabet)


@dataclass(frozen=True, slots=True)
class ByteLevelPieces:
    """Pieces of a byte-level BPE vocabulary."""

    alphabet: Mapping[str, int]
    strips_first_space: bool = False

    def to_bytes(self, piece: str) -> bytes:
        try:
            return bytes([self.alphabet[character] for character in piece])
        except KeyError:  # a piece from outside the alphabet is plain text
            return piece.encode()


@dataclass(frozen=True, slots=True)
class SentencePieces:
    """Pieces of a SentencePiece vocabulary."""

    strips_first_space: bool

    def to_bytes(self, piece: str) -> bytes:
        if byte := _BYTE_PIECE.fullmatch(piece):
            return bytes([int(byte[1], 16)])
        return piece.replace("▁", " ").encode()


Pieces = ByteLevelPieces | SentencePieces


def pieces_of(decoder: Component | None, name: str) -> Pieces:
    """The spelling that a tokenizer's decoder undoes; ModelError for any other kind."""
    parts = decoder.parts() if decoder else ()
    kinds = {part.type for part in parts}
    if "ByteLevel" in kinds:
        return ByteLevelPieces(byte_level_alphabet())
    if kinds & {"Metaspace", "ByteFallback"}:
        return SentencePieces(any(map(_strips_first_space, parts)))
    found = " + ".join(part.type for part in parts) or "none"
    raise ModelError(
        f"{name}: the tokenizer's decoder is {found}; byte-level BPE and SentencePiece are supported"
    )


def _strips_first_space(part: Component) -> bool:
    match part.type:
        case "Metaspace" if part.prepend_scheme is not None:
            return part.prepend_scheme != "never"
        case "Metaspace":
            return part.add_prefix_space is not False
        case "Strip":
            return part.content == " " and part.start > 0
    return False
