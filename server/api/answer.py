"""All choices of one HTTP request, grown by the events of its generation.

Choice `i * n + j` is the j-th of prompt i.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from engine.token_event import FinishReason
from server.api.choice import Choice, ChoiceDelta
from server.api.generation import Arrival, Generation
from server.api.request_record import RequestRecord
from server.api.schemas.usage import PromptTokensDetails, Usage
from server.api.token_entry import TokenEntry
from server.api.workers import Workers
from server.errors import GenerationFailed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FinishedChoice:
    text: str
    entries: tuple[TokenEntry, ...]
    finish_reason: FinishReason
    mean_logprob: float


class Answer:
    """Reads a started generation once, by `deltas` or by `finished`; its holder closes it."""

    def __init__(
        self,
        generation: Generation,
        choices: Sequence[Choice],
        prompt_tokens: Sequence[int],
        record: RequestRecord,
        workers: Workers,
    ) -> None:
        self._generation = generation
        self._choices = choices
        self._prompt_tokens = prompt_tokens  # per prompt
        self._cached_tokens = [0] * len(prompt_tokens)
        self._num_open = len(choices)
        self._record = record
        self._workers = workers
        self._record.prompt_tokens = sum(prompt_tokens)

    async def deltas(self) -> AsyncIterator[ChoiceDelta]:
        """What each event adds, until every choice is finished. Raises GenerationFailed and what
        ends the whole generation."""
        async for arrival in self._generation.events():
            delta = await self._advance(arrival)
            if delta is not None:
                yield delta
            if self._num_open == 0:
                return

    async def finished(self) -> list[FinishedChoice]:
        """Every choice, whole, in order."""
        texts: list[list[str]] = [[] for _ in self._choices]
        entries: list[list[TokenEntry]] = [[] for _ in self._choices]
        async for delta in self.deltas():
            texts[delta.index].append(delta.text)
            entries[delta.index].extend(delta.entries)
        return [
            FinishedChoice("".join(text), tuple(own), _reason(choice), choice.mean_logprob)
            for choice, text, own in zip(self._choices, texts, entries, strict=True)
        ]

    @property
    def usage(self) -> Usage:
        prompt_tokens = sum(self._prompt_tokens)
        completion_tokens = sum(choice.num_tokens for choice in self._choices)
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=sum(self._cached_tokens)),
        )

    async def close(self) -> None:
        await self._generation.close()

    async def _advance(self, arrival: Arrival) -> ChoiceDelta | None:
        event = arrival.event
        per_prompt = len(self._choices) // len(self._prompt_tokens)
        choice = self._choices[arrival.prompt_index * per_prompt + event.index]
        if choice.finish_reason is not None:
            return None
        if event.finish_reason in (FinishReason.ERROR, FinishReason.ABORT):
            raise _failure(event.error)
        if event.token_id is not None:
            self._record.count_token(choice.index)
        cached = self._cached_tokens[arrival.prompt_index]
        self._cached_tokens[arrival.prompt_index] = max(cached, event.cached_tokens)
        echoed = len(event.prompt_logprobs or ())
        delta = await self._workers.run_if_large(echoed, lambda: choice.push(event))
        if delta.finish_reason is not None:
            self._num_open -= 1
        if choice.stopped_by_text:
            self._generation.stop_sequence(arrival.prompt_index, event.index)
        return delta


def _failure(reason: str | None) -> GenerationFailed:
    logger.error("a sequence failed in the engine: %s", reason)
    return GenerationFailed("The model failed while generating this answer.")


def _reason(choice: Choice) -> FinishReason:
    assert choice.finish_reason is not None, "read to the end"
    return choice.finish_reason
