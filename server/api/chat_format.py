"""Answers of /v1/chat/completions."""

from collections.abc import Iterator, Sequence

from engine.token_event import FinishReason
from server.api.answer import FinishedChoice
from server.api.answer_format import AnswerHead, finish_word
from server.api.choice import ChoiceDelta
from server.api.schemas.chat import (
    AnswerMessage,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatLogprobs,
    ChatTokenLogprob,
    Delta,
    TopLogprob,
)
from server.api.schemas.usage import Usage
from server.api.token_entry import Alternative, TokenEntry
from server.text.tokenizer import Tokenizer


class ChatFormat:
    """One stream's writer: it remembers which choices have had their role."""

    def __init__(self, head: AnswerHead, tokenizer: Tokenizer, *, logprobs: bool) -> None:
        self.head = head
        self._tokenizer = tokenizer
        self._logprobs = logprobs
        self._begun: set[int] = set()

    def chunks(self, delta: ChoiceDelta) -> Iterator[ChatChunk]:
        if delta.index not in self._begun:
            self._begun.add(delta.index)
            yield self._chunk(delta.index, Delta(role="assistant", content=""))
        if delta.text or delta.entries:
            logprobs = self._report(delta.entries)
            yield self._chunk(delta.index, Delta(content=delta.text), logprobs)
        if delta.finish_reason is not None:
            yield self._chunk(delta.index, Delta(), finish_reason=delta.finish_reason)

    def usage_chunk(self, usage: Usage) -> ChatChunk:
        return ChatChunk(
            id=self.head.id,
            object="chat.completion.chunk",
            created=self.head.created,
            model=self.head.model,
            choices=[],
            usage=usage,
        )

    def whole(self, choices: Sequence[FinishedChoice], usage: Usage) -> ChatCompletion:
        return ChatCompletion(
            id=self.head.id,
            object="chat.completion",
            created=self.head.created,
            model=self.head.model,
            choices=[self._choice(index, choice) for index, choice in enumerate(choices)],
            usage=usage,
        )

    def _choice(self, index: int, choice: FinishedChoice) -> ChatChoice:
        return ChatChoice(
            index=index,
            message=AnswerMessage(role="assistant", content=choice.text),
            logprobs=self._report(choice.entries),
            finish_reason=finish_word(choice.finish_reason),
        )

    def _chunk(
        self,
        index: int,
        delta: Delta,
        logprobs: ChatLogprobs | None = None,
        finish_reason: FinishReason | None = None,
    ) -> ChatChunk:
        head = self.head
        choice = ChatChunkChoice(
            index=index,
            delta=delta,
            logprobs=logprobs,
            finish_reason=None if finish_reason is None else finish_word(finish_reason),
        )
        usage = {"usage": None} if head.include_usage else {}
        return ChatChunk(
            id=head.id,
            object="chat.completion.chunk",
            created=head.created,
            model=head.model,
            choices=[choice],
            **usage,
        )

    def _report(self, entries: Sequence[TokenEntry]) -> ChatLogprobs | None:
        if not self._logprobs:
            return None
        return ChatLogprobs(content=[self._entry(entry) for entry in entries], refusal=None)

    def _entry(self, entry: TokenEntry) -> ChatTokenLogprob:
        assert entry.logprob is not None, "only a prompt's first token has none"
        return ChatTokenLogprob(
            token=self._tokenizer.token_text(entry.token_id),
            logprob=entry.logprob,
            bytes=list(self._tokenizer.token_bytes(entry.token_id)),
            top_logprobs=[self._top(other) for other in entry.top],
        )

    def _top(self, other: Alternative) -> TopLogprob:
        return TopLogprob(
            token=self._tokenizer.token_text(other.token_id),
            logprob=other.logprob,
            bytes=list(self._tokenizer.token_bytes(other.token_id)),
        )
