"""Byte-level BPE in its plainest form: cut into words, then join the best pair until none is left."""

from collections.abc import Sequence
from itertools import pairwise

import regex

from server.text.token_pieces import byte_level_alphabet

GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def words(text: str) -> list[str]:
    """GPT-2's words, after every digit was taken out to stand alone."""
    parts = regex.findall(r"\p{N}|\P{N}+", text)
    return [word for part in parts for word in regex.findall(GPT2_WORDS, part)]


class NaiveBpe:
    def __init__(self, tokens: Sequence[str], merges: Sequence[str]) -> None:
        self._ids = {token: token_id for token_id, token in enumerate(tokens)}
        self._ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        self._symbols = {byte: symbol for symbol, byte in byte_level_alphabet().items()}

    def encode(self, text: str) -> list[int]:
        """Bytes that the vocabulary does not have are left out."""
        pieces = [piece for word in words(text) for piece in self._pieces(word)]
        return [self._ids[piece] for piece in pieces if piece in self._ids]

    def knows(self, text: str) -> bool:
        """Whether the vocabulary has every byte of the text."""
        return all(self._symbols[byte] in self._ids for byte in text.encode())

    def _pieces(self, word: str) -> list[str]:
        pieces = [self._symbols[byte] for byte in word.encode()]
        while len(pieces) > 1:
            pairs = list(pairwise(pieces))
            place = min(range(len(pairs)), key=lambda i: self._ranks.get(pairs[i], 1 << 30))
            if pairs[place] not in self._ranks:
                break
            pieces[place : place + 2] = ["".join(pairs[place])]
        return pieces
