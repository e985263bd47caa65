"""Finding control tokens in a text: the longest at the leftmost place."""

import re
from collections.abc import Iterable, Iterator

from server.text.tokenizer_definition import AddedToken


class SpecialTokens:
    """The control tokens of a vocabulary, by text and by id."""

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        self._by_id = {token.id: token for token in tokens}
        by_length = sorted(self._by_id.values(), key=lambda token: len(token.content), reverse=True)
        self._by_text = {token.content: token for token in by_length if token.content}
        self._pattern = re.compile("|".join(map(_pattern_of, self._by_text.values())))

    def __contains__(self, token_id: int) -> bool:
        return token_id in self._by_id

    def text(self, token_id: int) -> str:
        return self._by_id[token_id].content

    def written_in(self, text: str) -> list[str]:
        """Each control token that the text spells, longest first."""
        return [token for token in self._by_text if token in text]

    def split(self, text: str) -> Iterator[int | str]:
        """The text in order: ids of the control tokens, and the plain text between them.

        A token that strips takes the white space on that side with it.
        """
        place = 0
        for found in self._pattern.finditer(text) if self._by_text else ():
            token = self._by_text[found[0]]
            before = text[place : found.start()]
            if before := before.rstrip() if token.lstrip else before:
                yield before
            yield token.id
            place = found.end()
            if token.rstrip:
                place = _end_of_space(text, place)
        if place < len(text):
            yield text[place:]


def _end_of_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _pattern_of(token: AddedToken) -> str:
    body = re.escape(token.content)
    return rf"(?<!\w){body}(?!\w)" if token.single_word else body
