"""Ending a text before the first stop string in it, while the text still arrives."""

from collections.abc import Iterable


class StopStrings:
    """Watches one growing text for several stop strings.

    The stop that begins earliest in the text wins, as if the whole text were searched, however it
    is cut into pieces. Text that might be the beginning of a stop is held back.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(_StopString(stop) for stop in stops)
        self._held = ""  # the end of the text, not shown yet
        self._shown = 0  # characters of the text before it
        self._seen = 0  # characters of the text that were looked at
        self._match: int | None = None  # where the earliest complete stop begins

    @property
    def hit(self) -> bool:
        """Whether a stop ended the text; not yet, while one that begins earlier may complete."""
        return self._match is not None and self._match <= self._earliest_beginning()

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is now safe to show, and whether a stop ended it.

        After a hit the text is over, and what comes is dropped.
        """
        self._held += text
        for character in text:
            if self.hit:
                break
            self._look_at(character)
        return self._release(), self.hit

    def flush(self) -> str:
        """What was held back, at the end of the text; `hit` then says whether a stop ended it."""
        for stop in self._stops:
            stop.forget()
        return self._release()

    def _look_at(self, character: str) -> None:
        self._seen += 1
        for stop in self._stops:
            if stop.ends_with(character):
                begin = self._seen - len(stop.text)
                self._match = begin if self._match is None else min(begin, self._match)

    def _earliest_beginning(self) -> int:
        """The first place where a stop may begin that is not complete."""
        return self._seen - max((stop.matched for stop in self._stops), default=0)

    def _release(self) -> str:
        """Takes from the held text all that lies before any stop; once hit, the rest goes."""
        end = self._earliest_beginning()
        if self._match is not None:
            end = min(end, self._match)
        text = self._held[: max(end - self._shown, 0)]
        self._held = "" if self.hit else self._held[len(text) :]
        self._shown += len(text)
        return text


class _StopString:
    """How much of one stop string the text ends with: the automaton of Knuth, Morris and Pratt."""

    def __init__(self, text: str) -> None:
        if not text:
            raise ValueError("a stop string must not be empty")
        self.text = text
        self.matched = 0  # the longest proper prefix of `text` that the seen text ends with
        self._borders = _borders(text)

    def ends_with(self, character: str) -> bool:
        """Adds one character to the seen text; whether the whole stop string is now its end."""
        while self.matched and self.text[self.matched] != character:
            self.matched = self._borders[self.matched - 1]
        if self.text[self.matched] == character:
            self.matched += 1
        if self.matched < len(self.text):
            return False
        self.matched = self._borders[-1]
        return True

    def forget(self) -> None:
        self.matched = 0


def _borders(text: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0]
    for place in range(1, len(text)):
        length = borders[-1]
        while length and text[length] != text[place]:
            length = borders[length - 1]
        borders.append(length + (text[length] == text[place]))
    return borders
