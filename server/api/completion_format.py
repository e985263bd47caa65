"""Answers of /v1/completions."""

from collections.abc import Iterator, Sequence

from server.api.answer import FinishedChoice
from server.api.answer_format import AnswerHead, finish_word
from server.api.choice import ChoiceDelta
from server.api.schemas.completion import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionLogprobs,
)
from server.api.schemas.usage import Usage
from server.api.token_entry import TokenEntry, token_name
from server.text.tokenizer import Tokenizer


class CompletionFormat:
    def __init__(self, head: AnswerHead, tokenizer: Tokenizer, *, logprobs: bool) -> None:
        self.head = head
        self._tokenizer = tokenizer
        self._logprobs = logprobs

    def chunks(self, delta: ChoiceDelta) -> Iterator[CompletionChunk]:
        if delta.text or delta.entries:
            yield self._chunk(
                CompletionChoice(
                    index=delta.index,
                    text=delta.text,
                    logprobs=self._report(delta.entries),
                    finish_reason=None,
                )
            )
        if delta.finish_reason is not None:
            reason = finish_word(delta.finish_reason)
            yield self._chunk(
                CompletionChoice(index=delta.index, text="", logprobs=None, finish_reason=reason)
            )

    def usage_chunk(self, usage: Usage) -> CompletionChunk:
        return CompletionChunk(
            id=self.head.id,
            object="text_completion",
            created=self.head.created,
            model=self.head.model,
            choices=[],
            usage=usage,
        )

    def whole(self, choices: Sequence[FinishedChoice], usage: Usage) -> Completion:
        return Completion(
            id=self.head.id,
            object="text_completion",
            created=self.head.created,
            model=self.head.model,
            choices=[self._choice(index, choice) for index, choice in enumerate(choices)],
            usage=usage,
        )

    def _choice(self, index: int, choice: FinishedChoice) -> CompletionChoice:
        return CompletionChoice(
            index=index,
            text=choice.text,
            logprobs=self._report(choice.entries),
            finish_reason=finish_word(choice.finish_reason),
        )

    def _chunk(self, choice: CompletionChoice) -> CompletionChunk:
        head = self.head
        usage = {"usage": None} if head.include_usage else {}
        return CompletionChunk(
            id=head.id,
            object="text_completion",
            created=head.created,
            model=head.model,
            choices=[choice],
            **usage,
        )

    def _report(self, entries: Sequence[TokenEntry]) -> CompletionLogprobs | None:
        if not self._logprobs:
            return None
        return CompletionLogprobs(
            tokens=[token_name(self._tokenizer, entry.token_id) for entry in entries],
            token_logprobs=[entry.logprob for entry in entries],
            top_logprobs=[self._top(entry) for entry in entries],
            text_offset=[entry.offset for entry in entries],
        )

    def _top(self, entry: TokenEntry) -> dict[str, float] | None:
        """The likeliest tokens and the token itself, by name."""
        if entry.logprob is None:
            return None
        top: dict[str, float] = {}
        for other in entry.top:
            top.setdefault(token_name(self._tokenizer, other.token_id), other.logprob)
        top.setdefault(token_name(self._tokenizer, entry.token_id), entry.logprob)
        return top
