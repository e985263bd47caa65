"""How an answer is written: one format per API, the same parts streamed and whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.token_event import FinishReason
from server.api.answer import FinishedChoice
from server.api.choice import ChoiceDelta
from server.api.schemas.base import ResponseModel
from server.api.schemas.usage import Usage


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What every chunk of one answer repeats."""

    id: str
    created: int
    model: str
    include_usage: bool  # chunks say `usage`: null until the last


def finish_word(reason: FinishReason) -> Literal["stop", "length"]:
    """The two ways in which an answer ends well."""
    return "length" if reason is FinishReason.LENGTH else "stop"


class AnswerFormat(Protocol):
    @property
    def head(self) -> AnswerHead: ...

    def chunks(self, delta: ChoiceDelta) -> Iterator[ResponseModel]:
        """The chunks that tell of one delta; none where it brings nothing to tell."""
        ...

    def usage_chunk(self, usage: Usage) -> ResponseModel: ...

    def whole(self, choices: Sequence[FinishedChoice], usage: Usage) -> ResponseModel: ...
